"""What the engine told last, for `/status`: who asks for that never waits for an engine that hangs.

The engine is asked in the background. One that answers at once, as nearly all do, is waited for, so
that its count is of the moment; what comes later is there for the next question.
"""

import asyncio
import time
from typing import Final

from kindling_runtime import answers, enginefacts, enginemetrics
from kindling_runtime.contract import EngineFacts

PATIENCE_SECONDS: Final = 0.5
"""The operator gives `/status` up after three seconds."""
_FRESH_SECONDS: Final = 0.5
"""Who asks more often gets the last answer: an engine's metrics are some 100 KB."""


class LastKnown:
    """Of one engine; for use in an event loop."""

    def __init__(self, *, port: int) -> None:
        self._port = port
        self._reading: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        self.models_answers: int | None = None
        """As `answers.counted`; None before it was ever told."""
        self.facts: EngineFacts | None = None
        """As `enginefacts.told`; they do not change."""

    async def refresh(self) -> None:
        """Ask, and wait for the answer no longer than PATIENCE_SECONDS."""
        if self._reading is None:
            if time.monotonic() - self._read_at < _FRESH_SECONDS:
                return
            self._reading = asyncio.create_task(self._read())
        await asyncio.wait((self._reading,), timeout=PATIENCE_SECONDS)

    async def close(self) -> None:
        """Ask no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def _read(self) -> None:
        try:
            text = await enginemetrics.read(self._port) or ""
        finally:
            self._read_at = time.monotonic()
            self._reading = None
        count = answers.counted(text)
        self.models_answers = self.models_answers if count is None else count
        self.facts = self.facts or enginefacts.told(text)
