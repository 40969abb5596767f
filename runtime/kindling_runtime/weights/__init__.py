"""Weights on their way to a pod: one download per volume, resumable, checked, published at once."""
