"""Kindling's serving runtime: PID 1 of a serving pod, and the contract it shares with the operator."""
