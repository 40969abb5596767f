"""Corrections of measured faults of the image's vLLM, made out of tree: one file for each."""
