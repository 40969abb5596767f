"""What searches, loads and writes share. All of it belongs to the thread of the engine."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kindling_runtime.kv.bucket import Bucket
from kindling_runtime.kv.budget import Budget
from kindling_runtime.kv.counts import Counts
from kindling_runtime.kv.policy.hedge import Hedge
from kindling_runtime.kv.policy.layout import Layout
from kindling_runtime.kv.policy.presence import Presence
from kindling_runtime.kv.policy.scope import Place
from kindling_runtime.kv.policy.worth import Worth
from kindling_runtime.kv.rows import Rows
from kindling_runtime.kv.settings import Settings

COPIERS = 2
"""Threads that check and copy what was read."""


@dataclass(slots=True)
class Desk:
    """The parts of a tier; `clock` is in seconds and does not go back."""

    settings: Settings
    bucket: Bucket
    place: Place
    layout: Layout
    rows: Rows
    counts: Counts = field(default_factory=Counts)
    presence: Presence = field(default_factory=Presence)
    hedge: Hedge = field(default_factory=Hedge)
    worth: Worth = field(default_factory=Worth)
    used: set[bytes] = field(default_factory=set)
    """Anchors of objects that were found since that was last told."""
    clock: Callable[[], float] = time.monotonic
    copiers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(COPIERS, thread_name_prefix="kindling-kv-copy")
    )
    begun: float = field(init=False)
    reading: Budget = field(init=False)
    writing: Budget = field(init=False)
    questions: asyncio.Semaphore = field(init=False)
    reads: asyncio.Semaphore = field(init=False)
    writes: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock()
        limits = self.settings.limits
        self.reading, self.writing = Budget(limits.read_bytes), Budget(limits.write_bytes)
        self.questions = asyncio.Semaphore(limits.questions)
        self.reads = asyncio.Semaphore(limits.reads)
        self.writes = asyncio.Semaphore(limits.writes)

    def name(self, anchor: bytes) -> str:
        """Of the object with that anchor, a chunk's key: a block hash, and four bytes of group."""
        return self.place.name(int.from_bytes(anchor[-4:], "big"), anchor[:-4])

    def left(self, deadline: float) -> float:
        """Seconds until a moment; 1 ms when it is over, so that a request still fails as one."""
        return max(0.001, deadline - self.clock())

    @contextlib.asynccontextmanager
    async def turn(self, gate: asyncio.Semaphore, deadline: float) -> AsyncIterator[None]:
        """Wait for a place among the requests of a kind; raises TimeoutError at the deadline. What
        is done there keeps the deadline itself: a store that lets it pass must be told of."""
        async with asyncio.timeout(self.left(deadline)):
            await gate.acquire()
        try:
            yield
        finally:
            gate.release()

    async def size(self, anchor: bytes, deadline: float) -> int | None:
        """How many chunks the object with that anchor has; None where there is none. Remembered.

        Raises StoreError.
        """
        self.counts.questions += 1
        begun = self.clock()
        found = await self.bucket.size(self.name(anchor), seconds=self.left(deadline))
        self.worth.answered(self.clock() - begun)
        if found is None:
            return None
        count = self.layout.count(found)
        if count is None:
            self.presence.damaged(anchor)
            return None
        self.presence.exists(anchor, count)
        return count
