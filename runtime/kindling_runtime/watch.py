"""When to look for a token, and how: as often as needed, and no load on a busy engine."""

import asyncio
from collections.abc import Callable

from kindling_runtime.contract import EvidenceSource, Probe
from kindling_runtime.probe import Prober
from kindling_runtime.state import Event, Miss, State, Token

_LOADING_SECONDS = 0.5
"""Between two attempts while the engine loads: it refuses connections then, which is cheap."""
_RETRY_SECONDS = 1.0
"""Between two looks once one has missed: the engine is either back soon or wedged."""


class TokenWatch:
    """Turns an engine's behaviour into `Token` and `Miss` events until it is cancelled."""

    def __init__(self, prober: Prober, limits: Probe) -> None:
        self.canaries = 0
        """Attempts at a request for a token."""
        self._prober = prober
        self._limits = limits

    async def run(self, *, state: Callable[[], State], happened: Callable[[Event], None]) -> None:
        """Wait for the first token, then keep the evidence fresh."""
        while state().first_token is None:
            happened(await self._canary())
            await asyncio.sleep(_LOADING_SECONDS)
        before = await self._prober.counters()
        while True:
            await asyncio.sleep(_RETRY_SECONDS if state().misses else self._limits.interval_seconds)
            after = await self._prober.counters()
            if None not in (before, after) and before != after:
                happened(Token(EvidenceSource.COUNTERS))
                before = after
                continue
            happened(await self._canary())
            # Read again, so that our own token is not taken for a client's at the next look.
            before = await self._prober.counters()

    async def _canary(self) -> Token | Miss:
        self.canaries += 1
        return await self._prober.generate()
