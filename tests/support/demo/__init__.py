"""The demo: a cluster, the chart, one InferenceModel, and a completion through its endpoint."""
