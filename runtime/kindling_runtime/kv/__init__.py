"""The object-store tier of the KV cache: `tier.py` is what vLLM loads, `policy/` decides."""
