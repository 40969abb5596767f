"""Frozen values that the stages exchange: no I/O, no clock, no Kubernetes client."""
