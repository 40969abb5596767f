"""When to look for a token, and how: as often as needed, and no load on a busy engine."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from kindling_runtime.contract import EvidenceSource, Probe
from kindling_runtime.evidence import Book, Reading
from kindling_runtime.probe import Prober
from kindling_runtime.state import Event, Miss, State, Token

_LOADING_SECONDS = 0.5
"""Between two attempts while the engine loads: it refuses connections then, which is cheap."""
_RETRY_SECONDS = 1.0
"""Between two looks once one has missed: the engine is either back soon or wedged. And between two
readings of the counters of an engine that is busy."""
_LAST_SECONDS = 0.5
"""What the last reading of a look may take, so that the look is over in its time."""


class TokenWatch:
    """Turns an engine's behaviour into `Token` and `Miss` events until it is cancelled."""

    def __init__(self, prober: Prober, limits: Probe) -> None:
        self.canaries = 0
        """Attempts at a request for a token."""
        self._prober = prober
        self._limits = limits
        self._book = Book(seconds=limits.token_seconds)

    async def run(self, *, state: Callable[[], State], happened: Callable[[Event], None]) -> None:
        """Wait for the first token, then keep the evidence fresh."""
        while state().first_token is None:
            happened(await self._canary())
            await asyncio.sleep(_LOADING_SECONDS)
        found: Token | Miss = Token(EvidenceSource.CANARY)
        while True:
            begun = time.monotonic()
            pause = _RETRY_SECONDS if state().misses else self._limits.interval_seconds
            if found == Token(EvidenceSource.CANARY):
                # Our own token is not to be taken for a client's at the next look.
                await self._settle(within=pause)
            await asyncio.sleep(begun + pause - time.monotonic())
            found = await self._look(again=not state().misses)
            happened(found)

    async def _look(self, *, again: bool) -> Token | Miss:
        """What the counters show; a request of our own only where nothing runs or waits, or where
        they are not told."""
        reading = await self._counters(again=again)
        if reading is None:
            self._book.forget()
            return await self._canary()
        self._book.begin(reading, now=time.monotonic())
        while (left := self._book.left(now=time.monotonic())) > _LAST_SECONDS:
            if not self._book.awaited:
                moved = self._book.worked
                return Token(EvidenceSource.COUNTERS) if moved else await self._canary()
            await asyncio.sleep(min(_RETRY_SECONDS, left - _LAST_SECONDS))
            left = self._book.left(now=time.monotonic())
            reading = await self._prober.counters(within=max(left, _LAST_SECONDS))
            if reading is not None:
                self._book.enter(reading, now=time.monotonic())
        return self._silent(told=reading is not None)

    def _silent(self, *, told: bool) -> Miss:
        engine, requests = self._book.silent()
        many = "a request" if requests == 1 else f"{requests} requests"
        none = "it got no token" if requests == 1 else "none got a token"
        if not told:
            none = "did not tell whether a token came"
        return Miss(f"{engine} has {many} and {none} for {self._limits.token_seconds} s")

    async def _counters(self, *, again: bool) -> Reading | None:
        """The engine's signs of work, asked for `again` where it does not tell in time: a busy
        server is late with them, and a request more would make it later."""
        found = await self._prober.counters()
        if found is None and again:
            await asyncio.sleep(_RETRY_SECONDS)
            found = await self._prober.counters()
        return found

    async def _settle(self, *, within: float) -> None:
        """Read the counters in the time until the next look."""
        self._book.forget()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                reading = await self._prober.counters()
                if reading is not None:
                    self._book.enter(reading, now=time.monotonic())

    async def _canary(self) -> Token | Miss:
        self.canaries += 1
        return await self._prober.generate()
