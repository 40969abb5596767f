"""What the engine tells of its KV cache, once it serves.

Source: `vllm:cache_config_info` of vLLM 0.33 (v1/metrics/loggers.py): its labels are the fields of
its CacheConfig after the start.
"""

from collections.abc import Mapping

from kindling_runtime import enginemetrics, wire
from kindling_runtime.contract import EngineFacts

_METRIC = "vllm:cache_config_info"
_LONGEST_COUNT = 18


def told(text: str) -> EngineFacts | None:
    """The facts in an engine's metrics; of several engines that of the smallest KV cache."""
    samples = enginemetrics.samples(text, _METRIC)
    found = [_facts(sample.labels) for sample in samples or ()]
    return min(found, key=lambda facts: facts.kv_blocks or 0, default=None)


def _facts(labels: Mapping[str, str]) -> EngineFacts:
    return EngineFacts(
        kv_blocks=_number(labels.get("num_gpu_blocks")),
        kv_tokens=_number(labels.get("kv_cache_size_tokens")),
        kv_concurrency=_rounded(labels.get("kv_cache_max_concurrency")),
        cache_dtype=labels.get("cache_dtype"),
    )


def _number(text: str | None) -> int | None:
    return None if text is None else wire.number(text, digits=_LONGEST_COUNT)


def _rounded(text: str | None) -> str | None:
    """As vLLM logs it: two digits."""
    try:
        return None if text is None else f"{float(text):.2f}"
    except ValueError:
        return None
