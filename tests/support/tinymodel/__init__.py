"""Tiny models that a real vLLM serves, made on the spot."""
