"""How often the engine has told which models it serves, in its HTTP server's own count.

The runtime never asks that, so whatever is counted came from outside. The operator asks it through
the Service to see in which pod the count rises (docs/adr/0007).
"""

import math

from kindling_runtime import enginemetrics
from kindling_runtime.contract import MODELS_PATH

_METRIC = "http_requests_total"
"""Counted by prometheus-fastapi-instrumentator, which vLLM 0.33 has around its API server."""
_MOST = 2.0**53
"""Above that a float counts no more."""


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
