"""Writing chunks of the primary tier to the store.

Rows are copied before anything is sent: the primary tier gets them back after a copy, not after a
request, and no late request can send what was put in their place.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kindling_runtime.kv.bucket import StoreError
from kindling_runtime.kv.counts import Unwritten
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.policy.chains import Chunk, Gatherer, Run
from kindling_runtime.kv.rows import Bytes, encoded

APART: Final = 0.02
"""Seconds for each object that is to be written, over which their beginnings are spread."""
MOST_APART: Final = 0.25
MOST_APART_MET: Final = 1.0
MET_SECONDS: Final = 10.0
"""For so long after another pod was quicker, it is taken to be at the same prompts."""


@dataclass(slots=True, eq=False)
class Store:
    """Chunks that vLLM offers, by group. Their rows are kept until the job has `ended`, which is
    when none of the keys in `left` needs its row."""

    job: int
    request: str
    chunks: Mapping[int, Sequence[Chunk]]
    begun: float
    left: set[bytes] = field(default_factory=set)
    dropped: bool = False
    """Whether something was not kept for want of memory or of a store."""
    ended: bool = False


@dataclass(slots=True, eq=False)
class _Held:
    """A run whose rows are kept for it, by the jobs that offered them."""

    run: Run
    owners: dict[bytes, list[Store]]


@dataclass(slots=True)
class Writer:
    """Gathers offered chunks into objects and writes those; `report` gets each job once."""

    desk: Desk
    report: Callable[[Store], None]
    _gatherer: Gatherer = field(init=False)
    _waiting: dict[tuple[str, bytes], list[Store]] = field(default_factory=dict)
    """Who offered a chunk that waits for others of its object."""
    _since: dict[str, float] = field(default_factory=dict)
    _busy: set[bytes] = field(default_factory=set)
    """Anchors of objects that are being written."""
    _met_until: float = 0.0
    _rows: int = 0
    """That runs still need."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._gatherer = Gatherer(self.desk.layout.slots)

    def offer(
        self, job: Store, *, wanted: frozenset[bytes] | None, last: Mapping[int, int]
    ) -> None:
        """Take a job in. Of its chunks those in `wanted` are written, all where it is None; `last`
        is the index of the prompt's last wanted chunk in each group."""
        kept = {
            group: [chunk for chunk in chunks if wanted is None or chunk.key in wanted]
            for group, chunks in job.chunks.items()
        }
        job.left = {chunk.key for chunks in kept.values() for chunk in chunks}
        offered = sum(len(chunks) for chunks in job.chunks.values())
        self.desk.counts.spare(
            Unwritten.ADMISSION, (offered - len(job.left)) * self.desk.layout.chunk
        )
        for key in job.left:
            self._waiting.setdefault((job.request, key), []).append(job)
        for group, chunks in kept.items():
            runs = self._gatherer.add(job.request, group, chunks, last=last.get(group))
            self._begin(job.request, runs)
        if job.left:
            self._since.setdefault(job.request, job.begun)
        self._end(job)

    def finish(self, request: str) -> None:
        """A request stores no more."""
        self._since.pop(request, None)
        self._begin(request, self._gatherer.flush(request))

    def sweep(self) -> None:
        """Write what has waited for others for long enough."""
        now, hold = self.desk.clock(), self.desk.settings.deadlines.hold
        for request in [each for each, since in self._since.items() if now - since >= hold]:
            self.finish(request)

    async def idle(self, *, written: bool = False) -> None:
        """Wait until no row is needed any more: for copies, and for memory to copy to. With
        `written` also until everything is sent."""
        for request in list(self._since):
            self.finish(request)
        while self._tasks if written else self._rows:
            self._freed.clear()
            await self._freed.wait()

    async def close(self) -> None:
        """Give up what is not written yet."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, request: str, runs: Iterable[Run]) -> None:
        for run in runs:
            keys = [chunk.key for chunk in run.chunks]
            held = _Held(run, {key: self._waiting.pop((request, key), []) for key in keys})
            self._rows += len(keys)
            task = asyncio.get_running_loop().create_task(self._write(held))
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._freed.set()

    async def _write(self, held: _Held) -> None:
        """Raises nothing but the end of the tier; every row is given back."""
        desk, taken = self.desk, 0
        deadline = desk.clock() + desk.settings.deadlines.store
        try:
            rest = await self._unstored(held.run, deadline)
            self._give_back(held, frozenset(held.owners) - _keys(rest))
            if rest is None:
                return
            size = len(rest.chunks) * desk.layout.chunk
            async with asyncio.timeout(desk.left(deadline)):
                await desk.writing.take(size)
            taken = size
            await self._send(held, rest, deadline)
        except TimeoutError:
            self._drop(held, Unwritten.ROOM)
        except StoreError:
            self._drop(held, Unwritten.TROUBLE)
        finally:
            self._drop(held, Unwritten.TROUBLE)
            desk.writing.give(taken)

    async def _unstored(self, run: Run, deadline: float) -> Run | None:
        """What of a run no object has; asks about an object that this pod does not know."""
        desk, rest = self.desk, self.desk.presence.missing(run)
        if rest is not None and rest.anchor.key not in self._busy:
            async with desk.turn(desk.questions, deadline):
                await desk.size(rest.anchor.key, deadline)
            rest = desk.presence.missing(rest)
        if rest is not None and rest.anchor.key in self._busy:
            rest = None
        spared = len(run.chunks) - (len(rest.chunks) if rest else 0)
        desk.counts.spare(Unwritten.EXISTS, spared * desk.layout.chunk)
        return rest

    async def _send(self, held: _Held, run: Run, deadline: float) -> None:
        """Copy the rows, give them back, and write."""
        desk, anchor, chunks = self.desk, run.anchor.key, run.chunks[::-1]
        self._busy.add(anchor)
        try:
            slots = [chunk.slot for chunk in chunks]
            running = asyncio.get_running_loop()
            rows = await running.run_in_executor(desk.copiers, desk.rows.copied, slots)
            self._give_back(held, _keys(run))
            await self._put(run, rows, deadline)
        finally:
            self._busy.discard(anchor)

    async def _put(self, run: Run, rows: Sequence[Bytes], deadline: float) -> None:
        """Write a run; `rows` are its chunks from the anchor back."""
        desk, begun, anchor = self.desk, self.desk.clock(), run.anchor.key
        keys = [chunk.key for chunk in run.chunks[::-1]]
        running = asyncio.get_running_loop()
        parts = await running.run_in_executor(desk.copiers, encoded, keys, rows, desk.layout)
        size = sum(len(each) for each in parts)
        await self._apart()
        try:
            async with desk.turn(desk.writes, deadline):
                made = None
                if not await desk.size(anchor, deadline):
                    made = await desk.bucket.create(
                        desk.name(anchor), parts, seconds=desk.left(deadline)
                    )
        except (StoreError, TimeoutError):
            desk.counts.spare(Unwritten.TROUBLE, size)
            return
        if made is not None:
            desk.counts.store_seconds.append(desk.clock() - begun)
        if made:
            desk.presence.exists(anchor, len(keys))
            desk.counts.stored_objects += 1
            desk.counts.stored_chunks += len(keys)
            desk.counts.stored_bytes += size
            return
        if made is None:
            desk.counts.spare(Unwritten.EXISTS, size)
        else:
            desk.counts.duplicate_bytes += size
            self._met_until = desk.clock() + MET_SECONDS
        # Another pod was quicker; if its object has fewer chunks, the others are left to write.
        count = await desk.size(anchor, deadline)
        rest = desk.presence.missing(run) if count else None
        if rest is not None:
            await self._put(rest, rows[-len(rest.chunks) :], deadline)

    async def _apart(self) -> None:
        """Replicas that were given the same prompt at once begin its objects in different orders;
        further apart when they have met."""
        met = self.desk.clock() < self._met_until
        most = MOST_APART_MET if met else MOST_APART
        await asyncio.sleep(random.uniform(0, min(most, APART * len(self._tasks))))

    def _drop(self, held: _Held, why: Unwritten) -> None:
        """Give back the rows that were not copied; there are none where all went well."""
        self.desk.counts.spare(why, len(held.owners) * self.desk.layout.chunk)
        for jobs in held.owners.values():
            for job in jobs:
                job.dropped = True
        self._give_back(held, frozenset(held.owners))

    def _give_back(self, held: _Held, keys: Iterable[bytes]) -> None:
        self._freed.set()
        for key in keys:
            self._rows -= key in held.owners
            for job in held.owners.pop(key, ()):
                job.left.discard(key)
                self._end(job)

    def _end(self, job: Store) -> None:
        if not job.left and not job.ended:
            job.ended = True
            self.report(job)


def _keys(run: Run | None) -> frozenset[bytes]:
    return frozenset(chunk.key for chunk in run.chunks) if run else frozenset()
