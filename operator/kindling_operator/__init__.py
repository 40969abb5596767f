"""Kindling's operator: watch, observe, plan, render, apply, report; data flows one way."""

__version__ = "0.1.0"
