"""How often the engine has told which models it serves, in its HTTP server's own count.

The runtime never asks that, so whatever is counted came from outside. The operator asks it through
the Service to see in which pod the count rises (docs/adr/0007).
"""

import asyncio
import math
import time

from kindling_runtime import enginemetrics
from kindling_runtime.contract import MODELS_PATH

_FRESH_SECONDS = 0.5
"""Who asks more often gets the last answer: an engine's metrics are some 100 KB."""
_METRIC = "http_requests_total"
"""Counted by prometheus-fastapi-instrumentator, which vLLM 0.33 has around its API server."""
_MOST = 2.0**53
"""Above that a float counts no more."""


class Answers:
    """Reads the count of one engine."""

    def __init__(self, *, port: int) -> None:
        self._port = port
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._count: int | None = None

    async def count(self) -> int | None:
        """The answers since the engine's start; None where it does not tell."""
        async with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS:
                self._count = await self._read()
                self._read_at = time.monotonic()
            return self._count

    async def _read(self) -> int | None:
        text = await enginemetrics.read(self._port)
        return None if text is None else counted(text)


def counted(text: str) -> int | None:
    """The answers to GET of the models' list in an engine's metrics; None without such a count.

    The server counts a path from its first answer on: others than this one make it a count of 0.
    """
    samples = enginemetrics.samples(text, _METRIC)
    if not samples:
        return None
    asked = ("GET", MODELS_PATH)
    return sum(
        int(sample.value)
        for sample in samples
        if (sample.labels.get("method"), sample.labels.get("handler")) == asked
        and math.isfinite(sample.value)
        and 0 <= sample.value < _MOST
    )
