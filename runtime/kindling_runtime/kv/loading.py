"""Bringing chunks from the store into the primary tier.

A row is written by one copy of a whole chunk whose checksum is right, before the load is reported
and never after: what comes later is dropped.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kindling_runtime.kv.bucket import MissingError, StoreError
from kindling_runtime.kv.counts import Lost
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.policy.layout import DamagedError
from kindling_runtime.kv.policy.reads import Read, Wanted, plan
from kindling_runtime.kv.rows import part, wrong


@dataclass(slots=True, eq=False)
class Load:
    """Chunks that are wanted in rows of the primary tier, which are kept for them until the load
    has ended."""

    job: int
    request: str
    asked: int
    """Chunks that the engine wants, of which `wanted` are in the store."""
    wanted: tuple[Wanted, ...]
    begun: float
    done: set[bytes] = field(default_factory=set)
    """Keys of the chunks that are in their rows."""


async def load(desk: Desk, job: Load) -> None:
    """Load what can be loaded within the deadline. Raises nothing."""
    deadline = job.begun + desk.settings.deadlines.load
    begun = desk.clock()
    desk.counts.loads += 1
    lacking = await _pass(desk, job, plan(job.wanted, desk.layout), deadline)
    if lacking:
        again = await _elsewhere(desk, lacking, deadline)
        lost = await _pass(desk, job, plan(again, desk.layout), deadline)
        desk.counts.lose(Lost.MISSING, len(lacking) - len(again) + len(lost))
    desk.counts.load_seconds.append(desk.clock() - job.begun)
    count = len(job.done) * desk.layout.chunk
    desk.counts.loaded_chunks += len(job.done)
    desk.counts.loaded_bytes += count
    if count:
        desk.worth.loaded(count, desk.clock() - begun)


async def _pass(desk: Desk, job: Load, reads: Sequence[Read], deadline: float) -> list[Wanted]:
    """All reads at once, as far as there is room; the chunks that their objects never had."""
    found = await asyncio.gather(*(_read(desk, job, each, deadline) for each in reads))
    return [chunk for lacking in found for chunk in lacking]


async def _read(desk: Desk, job: Load, read: Read, deadline: float) -> list[Wanted]:
    try:
        async with asyncio.timeout(desk.left(deadline)):
            await desk.reads.acquire()
    except TimeoutError:
        desk.counts.lose(Lost.LATE, len(read.chunks))
        return []
    try:
        async with asyncio.timeout(desk.left(deadline)):
            await desk.reading.take(read.stop)
    except TimeoutError:
        desk.reads.release()
        desk.counts.lose(Lost.LATE, len(read.chunks))
        return []
    try:
        return await _fetched(desk, job, read, deadline)
    finally:
        desk.reading.give(read.stop)
        desk.reads.release()


async def _fetched(desk: Desk, job: Load, read: Read, deadline: float) -> list[Wanted]:
    try:
        data = await _hedged(desk, read, deadline)
    except MissingError:
        desk.presence.gone(read.anchor)
        return list(read.chunks)
    except StoreError:
        late = desk.clock() >= deadline
        desk.counts.lose(Lost.LATE if late else Lost.TROUBLE, len(read.chunks))
        return []
    desk.counts.read_bytes += len(data)
    running = asyncio.get_running_loop()
    try:
        bad = await running.run_in_executor(desk.copiers, _copy, desk, read, data)
    except DamagedError:
        bad = {each.key: "its object is damaged" for each in read.chunks}
    job.done |= {each.key for each in read.chunks if each.key not in bad}
    if any(bad.values()):
        desk.presence.damaged(read.anchor)
        desk.counts.lose(Lost.DAMAGED, sum(bool(why) for why in bad.values()))
    elif (count := desk.layout.count(len(data))) is not None and bad:
        desk.presence.exists(read.anchor, count)
    return [each for each in read.chunks if bad.get(each.key) == ""]


def _copy(desk: Desk, read: Read, data: memoryview) -> dict[bytes, str]:
    """In a thread of its own: check what was read, and copy what is right."""
    bad = wrong(data, read.chunks, desk.layout)
    for each in read.chunks:
        if each.key not in bad:
            desk.rows.place(each.slot, part(data, each, desk.layout))
    return bad


async def _hedged(desk: Desk, read: Read, deadline: float) -> memoryview:
    """An object's bytes, from a second request where the first is slower than most."""
    begun = desk.clock()
    first = asyncio.ensure_future(_get(desk, read, deadline))
    try:
        slow = await _is_slow(desk, first, deadline)
        if slow and desk.reading.take_now(read.stop):
            try:
                if desk.hedge.take():
                    return await _either(desk, read, first, deadline)
            finally:
                desk.reading.give(read.stop)
        return await first
    finally:
        first.cancel()
        desk.hedge.took(desk.clock() - begun)


async def _either(
    desk: Desk, read: Read, first: asyncio.Future[memoryview], deadline: float
) -> memoryview:
    """What comes first of two requests; the first one's error where both fail."""
    desk.counts.hedges += 1
    second = asyncio.ensure_future(_get(desk, read, deadline))
    waiting = {first, second}
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            good = [task for task in done if task.exception() is None]
            if good:
                desk.counts.hedges_won += first not in good
                return good[0].result()
        return first.result()
    finally:
        second.cancel()


async def _is_slow(desk: Desk, first: asyncio.Future[memoryview], deadline: float) -> bool:
    after = desk.hedge.after()
    if after is None or after >= desk.left(deadline):
        return False
    done, _ = await asyncio.wait({first}, timeout=after)
    return not done


async def _get(desk: Desk, read: Read, deadline: float) -> memoryview:
    name = desk.name(read.anchor)
    return await desk.bucket.read(name, read.stop, seconds=desk.left(deadline))


async def _elsewhere(desk: Desk, lacking: Sequence[Wanted], deadline: float) -> list[Wanted]:
    """Where chunks lie that were taken to be in an object which has fewer: in one between two
    cuts that ends with one of them."""
    held: dict[bytes, Wanted] = {}
    by_place = {(each.group, each.anchor, each.back): each for each in lacking}
    ends = [each for each in lacking if each.back]  # an anchor of its own was asked for already
    counts = await asyncio.gather(*(_count(desk, each, deadline) for each in ends))
    for end, count in zip(ends, counts, strict=True):
        for back in range(count):
            if other := by_place.get((end.group, end.anchor, end.back + back)):
                held[other.key] = replace(other, anchor=end.key, back=back)
    return list(held.values())


async def _count(desk: Desk, end: Wanted, deadline: float) -> int:
    try:
        async with desk.turn(desk.questions, deadline):
            return await desk.size(end.key, deadline) or 0
    except (StoreError, TimeoutError):
        return 0
