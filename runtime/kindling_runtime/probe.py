"""Looking for proof that the engine generates, in the way its clients would find it.

vLLM answers /health while it hangs, drains or sleeps, so /health is never asked. A token is proof,
and so are the engine's own counters when they move: then clients are being served, and a request of
ours would only add to their load.
"""

import json
from collections.abc import Sequence
from typing import Any

import aiohttp

from kindling_runtime import enginemetrics, evidence, replies
from kindling_runtime.contract import EvidenceSource, Probe
from kindling_runtime.evidence import Reading
from kindling_runtime.foreign import printable
from kindling_runtime.state import Miss, Token

_COUNTERS_SECONDS = 5
_LONGEST_QUOTE = 200
_LONGEST_ANSWER = 1 << 20
_BY_PRIORITY = "--scheduling-policy=priority"
_LAST = 1_000_000
"""Lower goes first in vLLM (ChatCompletionRequest.priority), which refuses all but 0 unless it
schedules by priority."""


class Prober:
    """Asks one engine, over a connection of its own each time, as a new client would."""

    def __init__(self, *, port: int, model: str, limits: Probe, argv: Sequence[str] = ()) -> None:
        """`argv` is the engine's command: where it schedules by priority, clients go first."""
        self._port = port
        request = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}
        self._request = request | ({"priority": _LAST} if _BY_PRIORITY in argv else {})
        self._deadline = replies.within(limits.token_seconds)
        self._glance = min(_COUNTERS_SECONDS, limits.token_seconds)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True), auto_decompress=False
        )

    async def close(self) -> None:
        """Give the connections back."""
        await self._session.close()

    async def generate(self) -> Token | Miss:
        """Ask for one token and wait at most the planned time for it."""
        try:
            async with self._session.post(
                f"http://127.0.0.1:{self._port}/v1/completions",
                json=self._request,
                headers=replies.HEADERS,
                timeout=self._deadline,
                allow_redirects=False,
            ) as response:
                text = await replies.text_of(response, most=_LONGEST_ANSWER)
                if response.status != 200:
                    return Miss(f"it answered HTTP {response.status}: {_quoted(text)}")
                return _tokens_of(text)
        except TimeoutError:
            return Miss(f"it did not answer a one-token request within {self._deadline.total} s")
        except replies.TooLongError as error:
            return Miss(f"it answered a one-token request with {error}")
        except aiohttp.ClientConnectorError:
            return Miss("it does not accept connections")
        except aiohttp.ClientError as error:
            return Miss(f"its answer broke off: {type(error).__name__}")

    async def counters(self, *, within: float = _COUNTERS_SECONDS) -> Reading | None:
        """The engine's signs of work, or None when it does not tell in `within` seconds."""
        text = await enginemetrics.read(self._port, seconds=min(self._glance, within))
        return None if text is None else evidence.signs_of(text)


def _tokens_of(text: str) -> Token | Miss:
    """Judge a completion by the tokens that the engine says it generated.

    An aborted request is answered with status 200 as well, and the first token of a tiny model may
    be an empty text, so neither the status nor the text is proof.
    """
    try:
        answer: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Miss("it answered a one-token request with what is no JSON")
    match answer:
        case {"usage": {"completion_tokens": int(tokens)}} if tokens > 0:
            return Token(EvidenceSource.CANARY)
        case _:
            return Miss("it answered a one-token request without a token")


def _quoted(said: str) -> str:
    """The beginning of what an engine said, on one line that moves no terminal."""
    return printable(said[: 4 * _LONGEST_QUOTE])[:_LONGEST_QUOTE]
