"""That a fetch goes on where an earlier one was: what is noted as written does not come again."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from tests.support.engine.pod import PATIENCE
from tests.support.weights.fetching import KEY, Fetching
from tests.support.weights.store import Store

from kindling_runtime.weights.journal import Line
from kindling_runtime.weights.parts import SMALL_PART
from kindling_runtime.weights.volume import JOURNAL

MORE: Final = 13 * SMALL_PART
"""Bytes. Ten parts are on their way at once: of so many bytes two parts at least are whole."""

Parts = frozenset[tuple[str, int]]
"""Each by its file's path and its index."""


def noted(volume: Path) -> Parts:
    """The parts of weight files that the journals of `KEY` tell as written."""
    return frozenset(
        (line.path, line.index)
        for journal in (volume / "partial" / KEY).glob(f"{JOURNAL}*")
        for text in journal.read_bytes().splitlines()
        if text and (line := msgspec.json.decode(text, type=Line)).path.endswith(".safetensors")
    )


async def until_stuck(store: Store, run: Fetching) -> None:
    """Wait until the store has sent all that it will."""
    async with asyncio.timeout(PATIENCE):
        while store.sent < (store.hangs_after or 0):
            assert run.process.returncode is None, run.log
            await asyncio.sleep(0.01)


async def until_noted(volume: Path, run: Fetching, *, least: int) -> None:
    """Wait until so many parts are noted."""
    async with asyncio.timeout(PATIENCE):
        while len(noted(volume)) < least:
            assert run.process.returncode is None, run.log
            await asyncio.sleep(0.01)


@dataclass(slots=True)
class Resuming:
    """Fetches from one store into one volume, one after the other; their parts are `SMALL_PART`."""

    store: Store
    volume: Path
    kept: Parts = frozenset()

    async def until_stuck(self, run: Fetching) -> None:
        """Wait until the store has sent all that it will, and a part more is noted."""
        await until_stuck(self.store, run)
        self.nothing_came_again()
        await until_noted(self.volume, run, least=len(self.kept) + 1)

    def ended(self) -> None:
        """A fetch has ended early: what is noted now, no later one may ask for."""
        self.nothing_came_again()
        self.kept = noted(self.volume)
        self.store.begun.clear()

    def nothing_came_again(self) -> None:
        """Fail if a part was asked for that was noted when an earlier fetch ended."""
        asked = {(path, start // SMALL_PART) for path, start in self.store.begun}
        assert not asked & self.kept, "parts were asked for that are there"
