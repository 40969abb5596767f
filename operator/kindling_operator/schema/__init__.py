"""Writes the CRD, the chart's copy of it and its reference pages from the typed model.

Run as ``python -m kindling_operator.schema``; the output depends on the code alone.
"""
