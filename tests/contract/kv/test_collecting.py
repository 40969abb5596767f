"""Space and age are kept within bounds by one pod at a time, in each store."""

import asyncio
from collections.abc import Callable

import pytest
from tests.support.clock import Clock
from tests.support.kv import pods
from tests.support.kv.pods import PLACE, Pod, chain
from tests.support.kv.prompts import keys_of

from kindling_runtime.kv.bucket import Bucket
from kindling_runtime.kv.collecting import LEASE_SECONDS, Collector

pytestmark = pytest.mark.timeout(60, func_only=True)

CHUNK = 4 << 20
Opening = Callable[[], Bucket]


async def _filled(pod: Pod, prompt: str, count: int) -> list[bytes]:
    keys = keys_of(prompt, count)
    pod.fill(keys)
    pod.tell(prompt, chain(keys))
    await pod.store(prompt, keys, range(count))
    await pod.idle()
    return keys


async def _there(pod: Pod) -> int:
    found = [
        each async for page in pod.desk.bucket.listing(PLACE.prefix, seconds=20) for each in page
    ]
    return len(found)


async def test_above_the_limit_the_rest_stays_and_what_went_can_come_again(
    bucket: Opening,
) -> None:
    async with pods.running(bucket, chunk=CHUNK, rows=8, max_bytes=6 * CHUNK) as pod:
        keys = await _filled(pod, "p", 8)
        assert len(await pod.search("again", chain(keys))) == 8
        collector = Collector(pod.desk)
        assert await collector.turn()
        assert await _there(pod) == 5
        assert (collector.deleted, collector.kept_bytes) == (3, 5 * pod.layout.size(1))
        assert not await collector.turn() or collector.deleted == 3
        await _filled(pod, "p", 8)
        assert await _there(pod) == 8
        pod.clear()
        loaded = await pod.load(keys, await pod.search("whole", chain(keys)))
        assert loaded.done == set(keys)


async def test_what_is_used_stays_longer_than_its_age(bucket: Opening) -> None:
    async with pods.running(bucket, chunk=CHUNK, rows=4, max_age=1) as pod:
        old = await _filled(pod, "old", 2)
        await asyncio.sleep(2.5)  # the store's clock, which nobody sets
        used = await _filled(pod, "used", 2)
        assert len(await pod.search("again", chain(used))) == 2
        collector = Collector(pod.desk)
        assert await collector.turn()
        assert collector.deleted == 2
        assert await pod.search("r", chain(old)) == {}


async def test_within_the_limits_nothing_goes(bucket: Opening) -> None:
    async with pods.running(bucket, chunk=CHUNK, rows=4, max_bytes=5 * CHUNK, max_age=3600) as pod:
        await _filled(pod, "p", 4)
        collector = Collector(pod.desk)
        assert await collector.turn()
        assert (collector.deleted, await _there(pod)) == (0, 4)


async def test_what_a_pod_found_damaged_is_deleted_and_written_again(bucket: Opening) -> None:
    async with pods.running(bucket, chunk=CHUNK, rows=4) as pod:
        keys = await _filled(pod, "p", 4)
        store, name = pod.desk.bucket, pod.desk.name(keys[1])
        await store.overwrite(name, b"x" * pod.layout.size(1), seconds=20)
        loaded = await pod.load(keys, await pod.search("r", chain(keys)))
        assert loaded.done == {keys[0], keys[2], keys[3]}
        assert await Collector(pod.desk).turn()
        assert await _there(pod) == 3
        await _filled(pod, "p", 4)
        assert len(await pod.search("r2", chain(keys))) == 4


async def test_one_pod_collects_and_another_takes_over_from_one_that_is_gone(
    bucket: Opening,
) -> None:
    async with pods.running(bucket, chunk=CHUNK, rows=4) as pod:
        await _filled(pod, "p", 4)
        clock = pod.desk.clock = Clock()
        first, second = Collector(pod.desk), Collector(pod.desk)
        assert await first.turn()
        assert not await second.turn()
        clock.now += LEASE_SECONDS - 1
        assert not await second.turn()
        assert await first.turn()
        clock.now += LEASE_SECONDS
        assert not await second.turn()  # the first one was there meanwhile
        clock.now += LEASE_SECONDS
        assert await second.turn()
        # The first one finds out before it deletes anything, and waits in turn.
        assert not await first.turn()
        assert not await first.turn()
        assert (first.turns, second.turns) == (2, 1)
