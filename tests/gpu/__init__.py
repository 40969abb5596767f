"""Measurements on an H200, run by hand; docs/perf/h200-split.md has the last result."""
