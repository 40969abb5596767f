"""What the engine tells of its KV cache, once it serves: read once, as it does not change.

Source: `vllm:cache_config_info` of vLLM 0.33 (v1/metrics/loggers.py): its labels are the fields of
its CacheConfig after the start.
"""

from collections.abc import Mapping

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from kindling_runtime.contract import EngineFacts

_SECONDS = 2
"""An engine that does not tell in this time is asked again with the next question."""
_METRIC = "vllm:cache_config_info"


class EngineTeller:
    """Asks one engine for its facts, until it has told them."""

    def __init__(self, *, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._facts: EngineFacts | None = None

    async def facts(self) -> EngineFacts | None:
        """The facts; None while it does not tell."""
        if self._facts is None:
            self._facts = await self._ask()
        return self._facts

    async def _ask(self) -> EngineFacts | None:
        deadline = aiohttp.ClientTimeout(total=_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=deadline) as session,
                session.get(self._url) as response,
            ):
                text = await response.text(errors="replace") if response.status == 200 else ""
        except (TimeoutError, aiohttp.ClientError):
            return None
        return told(text)


def told(text: str) -> EngineFacts | None:
    """The facts in an engine's metrics; of several engines that of the smallest KV cache."""
    lines = [line for line in text.splitlines() if line.startswith(_METRIC)]
    try:
        found = [
            _facts(sample.labels)
            for family in text_string_to_metric_families("\n".join(lines))
            for sample in family.samples
        ]
    except ValueError:
        return None
    return min(found, key=lambda facts: facts.kv_blocks or 0, default=None)


def _facts(labels: Mapping[str, str]) -> EngineFacts:
    return EngineFacts(
        kv_blocks=_number(labels.get("num_gpu_blocks")),
        kv_tokens=_number(labels.get("kv_cache_size_tokens")),
        kv_concurrency=_rounded(labels.get("kv_cache_max_concurrency")),
        cache_dtype=labels.get("cache_dtype"),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _rounded(text: str | None) -> str | None:
    """As vLLM logs it: two digits."""
    try:
        return None if text is None else f"{float(text):.2f}"
    except ValueError:
        return None
