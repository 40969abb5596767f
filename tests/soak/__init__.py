"""Repetition and chaos, for hours if asked to: `make soak`."""
