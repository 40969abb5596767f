"""A pod's side of the tier without vLLM: memory with known content, and what moves it."""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tests.support.kv.prompts import chunks_of

from kindling_runtime.kv.bucket import Bucket
from kindling_runtime.kv.counts import Counts
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.engine import Engine, Finished, Order, Outcome, Prompt, Seek
from kindling_runtime.kv.loading import Load
from kindling_runtime.kv.policy.chains import layout_for
from kindling_runtime.kv.policy.layout import Layout
from kindling_runtime.kv.policy.reads import Wanted
from kindling_runtime.kv.policy.scope import Place
from kindling_runtime.kv.policy.search import Chain, Source
from kindling_runtime.kv.rows import Rows
from kindling_runtime.kv.searching import Found
from kindling_runtime.kv.settings import Deadlines, Settings
from kindling_runtime.kv.storing import Store

PLACE: Final = Place("kindling-kv/v1/test/ml/tiny", "kindling-kv/v1/test/ml/tiny/rev/any")
TOKENS: Final = 16
_WAIT_SECONDS: Final = 30.0


def content(key: bytes, size: int) -> npt.NDArray[np.uint8]:
    """What the chunk with that key has in it."""
    seed = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def settings_for(**more: Any) -> Settings:
    """Everything is written; deadlines that a busy machine keeps."""
    given: dict[str, Any] = {
        "uri": "s3://kv/x",
        "weights": "rev",
        "admission": "Always",
        "deadlines": {"search": 20, "load": 30, "store": 30, "hold": 30},
    }
    deadlines = given["deadlines"] | more.pop("deadlines", {})
    return Settings(**given | more | {"deadlines": Deadlines(**deadlines)})


@dataclass(slots=True)
class Pod:
    """One pod; its memory has a row for each chunk of the prompts that a test uses."""

    engine: Engine
    memory: npt.NDArray[np.uint8]
    layout: Layout
    _jobs: Any = field(default_factory=lambda: itertools.count(1))
    _kept: list[Outcome] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        """What its tier has done."""
        return self.desk.counts

    @property
    def desk(self) -> Desk:
        """Its engine's parts."""
        assert self.engine.desk is not None
        return self.engine.desk

    def fill(self, keys: Sequence[bytes]) -> None:
        """Put each chunk in the row of its index."""
        for row, key in enumerate(keys):
            self.memory[row] = content(key, self.layout.chunk)

    def clear(self) -> None:
        """Nothing is in memory."""
        self.memory[:] = 0

    def holds(self, keys: Sequence[bytes], index: int) -> bool:
        """Whether the row of a chunk has its content."""
        return bool((self.memory[index] == content(keys[index], self.layout.chunk)).all())

    async def store(
        self, request: str, keys: Sequence[bytes], indexes: Sequence[int], *, group: int = 0
    ) -> Store:
        """Offer chunks, and wait until their rows are free."""
        job = self.offer(request, keys, indexes, group=group)
        await self.ended(job)
        return job

    def offer(
        self, request: str, keys: Sequence[bytes], indexes: Sequence[int], *, group: int = 0
    ) -> Store:
        """Offer chunks."""
        chunks = {group: chunks_of(list(keys), indexes)}
        job = Store(next(self._jobs), request, chunks, self.desk.clock())
        self.engine.give([job])
        return job

    def tell(self, request: str, *chains: Chain) -> None:
        """A new request."""
        self.engine.give([Prompt(request, lambda: chains)])

    async def search(self, request: str, *chains: Chain, have: int = 0) -> Mapping[bytes, Source]:
        """Look for a prompt."""
        self.engine.give([Prompt(request, lambda: chains), Seek(request, have, self.desk.clock())])
        found = await self._outcome(
            lambda each: isinstance(each, Found) and each.request == request
        )
        assert isinstance(found, Found)
        return found.sources

    async def load(self, keys: Sequence[bytes], sources: Mapping[bytes, Source]) -> Load:
        """Bring all chunks that have a source to the rows of their index."""
        job = self.begin_load(keys, sources)
        await self.ended(job)
        return job

    def begin_load(self, keys: Sequence[bytes], sources: Mapping[bytes, Source]) -> Load:
        """Order it."""
        wanted = tuple(
            Wanted(key, index, index, int.from_bytes(key[-4:], "big"), at.anchor, at.back)
            for index, key in enumerate(keys)
            if (at := sources.get(key)) is not None
        )
        job = Load(next(self._jobs), "", len(wanted), wanted, self.desk.clock())
        self.engine.give([job])
        return job

    async def ended(self, job: Load | Store) -> None:
        """Wait until a job is reported."""
        await self._outcome(lambda each: each is job)

    def finish(self, request: str) -> None:
        """A request stores no more."""
        self.engine.give([Finished(request)])

    async def idle(self) -> None:
        """Wait until everything is written."""
        await asyncio.to_thread(self.engine.wait_idle, written=True)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(_WAIT_SECONDS):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def _outcome(self, fits: Callable[[Outcome], bool]) -> Outcome:
        async with asyncio.timeout(_WAIT_SECONDS):
            while True:
                while self.engine.outcomes:
                    self._kept.append(self.engine.outcomes.popleft())
                for each in self._kept:
                    if fits(each):
                        self._kept.remove(each)
                        return each
                assert self.engine.failure is None, self.engine.failure
                await asyncio.sleep(0.002)

    def orders(self, *orders: Order) -> None:
        """Whatever else."""
        self.engine.give(list(orders))


@asynccontextmanager
async def running(
    bucket: Callable[[], Bucket], *, chunk: int, rows: int = 64, **more: Any
) -> AsyncIterator[Pod]:
    """A pod with an empty memory of so many rows, while the context lasts."""
    memory = np.zeros((rows, chunk), np.uint8)
    layout = layout_for(chunk)
    settings = settings_for(**more)

    def prepare() -> Desk:
        return Desk(settings, bucket(), PLACE, layout, Rows(memory.data))

    engine = Engine(prepare)
    engine.start()
    try:
        yield Pod(engine, memory, layout)
    finally:
        await asyncio.to_thread(engine.stop)


def chain(keys: Sequence[bytes], *, window: int | None = None) -> Chain:
    """Of the keys of a prompt, from its beginning."""
    return Chain(int.from_bytes(keys[0][-4:], "big"), TOKENS, tuple(keys), window)
