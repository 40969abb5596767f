"""Looking for proof that the engine generates, in the way its clients would find it.

vLLM answers /health while it hangs, drains or sleeps, so /health is never asked. A token is proof,
and so are the engine's own counters when they move: then clients are being served, and a request of
ours would only add to their load.
"""

from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from kindling_runtime.contract import EvidenceSource, Probe
from kindling_runtime.state import Miss, Token

_COUNTERS_SECONDS = 5
_LONGEST_QUOTE = 200

# Metrics that the engine core moves, not its HTTP server. The cache gauge moves during a long
# prefill, when no token is counted yet.
_SIGNS_OF_WORK = frozenset(
    {
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        "vllm:kv_cache_usage_perc",
    }
)

Counters = frozenset[tuple[str, tuple[tuple[str, str], ...], float]]
"""The values of the engine's signs of work, with their labels."""


class Prober:
    """Asks one engine, over a connection of its own each time, as a new client would."""

    def __init__(self, *, port: int, model: str, limits: Probe) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._model = model
        self._deadline = aiohttp.ClientTimeout(total=limits.token_seconds)
        self._glance = aiohttp.ClientTimeout(total=min(_COUNTERS_SECONDS, limits.token_seconds))
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))

    async def close(self) -> None:
        """Give the connections back."""
        await self._session.close()

    async def generate(self) -> Token | Miss:
        """Ask for one token and wait at most the planned time for it."""
        request = {"model": self._model, "prompt": "1", "max_tokens": 1, "temperature": 0}
        try:
            async with self._session.post(
                f"{self._base}/v1/completions", json=request, timeout=self._deadline
            ) as response:
                if response.status != 200:
                    said = " ".join((await response.text(errors="replace")).split())
                    return Miss(f"it answered HTTP {response.status}: {said[:_LONGEST_QUOTE]}")
                return _tokens_of(await response.json(content_type=None))
        except TimeoutError:
            return Miss(f"it did not answer a one-token request within {self._deadline.total} s")
        except aiohttp.ClientConnectorError:
            return Miss("it does not accept connections")
        except (aiohttp.ClientError, ValueError) as error:
            return Miss(f"its answer broke off: {type(error).__name__}")

    async def counters(self) -> Counters | None:
        """The engine's signs of work, or None when it does not tell."""
        try:
            async with self._session.get(f"{self._base}/metrics", timeout=self._glance) as response:
                text = await response.text(errors="replace") if response.status == 200 else ""
        except (TimeoutError, aiohttp.ClientError):
            return None
        return _signs_of_work(text)


def _tokens_of(answer: Any) -> Token | Miss:
    """Judge a completion by the tokens that the engine says it generated.

    An aborted request is answered with status 200 as well, and the first token of a tiny model may
    be an empty text, so neither the status nor the text is proof.
    """
    match answer:
        case {"usage": {"completion_tokens": int(tokens)}} if tokens > 0:
            return Token(EvidenceSource.CANARY)
        case _:
            return Miss("it answered a one-token request without a token")


def _signs_of_work(text: str) -> Counters | None:
    try:
        found = frozenset(
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in _SIGNS_OF_WORK
        )
    except ValueError:
        return None
    return found or None
