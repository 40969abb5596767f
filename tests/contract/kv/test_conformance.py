"""What the tier needs of a store, from each: in memory, S3, GCS and Azure."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
from tests.support.kv import pods
from tests.support.kv.pods import PLACE, chain
from tests.support.kv.prompts import keys_of

from kindling_runtime.kv.bucket import Ask, Bucket, ChangedError, MissingError
from kindling_runtime.kv.counts import Lost, Unwritten

pytestmark = pytest.mark.timeout(60, func_only=True)

KIB = 1 << 10
SMALL = 512 * KIB
"""Eight chunks to an object."""
LARGE = 5 << 20
Opening = Callable[[], Bucket]


async def test_a_name_is_written_once_and_what_is_in_it_stays(bucket: Opening) -> None:
    store = bucket()
    header = b"12345678"
    assert await store.create("a/b", [header, memoryview(b"x" * 100)], seconds=10)
    assert not await store.create("a/b", [b"y" * 100], seconds=10)
    assert await store.size("a/b", seconds=10) == 108
    assert bytes(await store.read("a/b", 9, seconds=10)) == header + b"x"
    assert len(await store.read("a/b", 1000, seconds=10)) == 108
    assert await store.size("a/c", seconds=10) is None
    with pytest.raises(MissingError):
        await store.read("a/c", 9, seconds=10)
    assert store.failed == {}


async def test_of_writers_of_one_name_one_wins(bucket: Opening) -> None:
    store = bucket()
    race = [store.create("a/b", [bytes([n]) * 1000], seconds=20) for n in range(8)]
    won = await asyncio.gather(*race)
    assert won.count(True) == 1
    content = bytes(await store.read("a/b", 2000, seconds=10))
    assert content == bytes([won.index(True)]) * 1000


async def test_a_version_is_replaced_once(bucket: Opening) -> None:
    store = bucket()
    first = await store.replace("lease", b"1", None, seconds=10)
    with pytest.raises(ChangedError):
        await store.replace("lease", b"2", None, seconds=10)
    await store.replace("lease", b"3", first, seconds=10)
    with pytest.raises(ChangedError):
        await store.replace("lease", b"4", first, seconds=10)
    content, version = await store.read_whole("lease", seconds=10)
    assert content == b"3"
    await store.replace("lease", b"5", version, seconds=10)


async def test_objects_are_listed_and_deleted(bucket: Opening) -> None:
    store = bucket()
    for name in ("a/x/1", "a/x/2", "a/y/3", "ab/4"):
        await store.create(name, [name.encode()], seconds=10)
    pages = [page async for page in store.listing("a", seconds=10)]
    assert {each.name: each.size for page in pages for each in page} == {
        "a/x/1": 5,
        "a/x/2": 5,
        "a/y/3": 5,
    }
    await store.delete("a/x/1", seconds=10)
    await store.delete("a/x/1", seconds=10)
    assert await store.size("a/x/1", seconds=10) is None


@pytest.mark.parametrize("chunk", [SMALL, LARGE], ids=["packed", "alone"])
async def test_what_one_pod_stores_another_restores_byte_for_byte(
    bucket: Opening, chunk: int
) -> None:
    count = 19 if chunk == SMALL else 5
    keys = keys_of("prompt", count)
    async with pods.running(bucket, chunk=chunk, rows=count) as writer:
        writer.fill(keys)
        writer.tell("r", chain(keys))
        steps = [writer.offer("r", keys, range(a, b)) for a, b in pairwise([0, 3, 4, count])]
        for job in steps:
            await writer.ended(job)
        await writer.idle()
        assert writer.counts.stored_objects == (3 if chunk == SMALL else 5)
        assert writer.counts.stored_chunks == count
        assert not any(job.dropped for job in steps)
    async with pods.running(bucket, chunk=chunk, rows=count) as reader:
        sources = await reader.search("r", chain(keys))
        assert set(sources) == set(keys)
        loaded = await reader.load(keys, sources)
        assert loaded.done == set(keys)
        assert all(reader.holds(keys, index) for index in range(count))
        assert reader.desk.bucket.asked[Ask.GET] == (3 if chunk == SMALL else 5)
        assert reader.counts.lost == {}


async def test_a_shared_prefix_is_found_and_the_rest_is_not(bucket: Opening) -> None:
    first = keys_of("first", 24)
    second = keys_of("second", 24, shared="first", until=19)
    async with pods.running(bucket, chunk=SMALL) as pod:
        pod.fill(first)
        pod.tell("a", chain(first))
        await pod.store("a", first, range(24))
        await pod.idle()
        assert set(await pod.search("b", chain(second))) == set(first[:16])


async def test_pods_that_start_apart_send_nothing_twice(bucket: Opening) -> None:
    keys = keys_of("prompt", 24)
    async with (
        pods.running(bucket, chunk=SMALL) as one,
        pods.running(bucket, chunk=SMALL) as two,
    ):
        for pod in (one, two):
            pod.fill(keys)
            pod.tell("r", chain(keys))
            await pod.store("r", keys, range(24))
            await pod.idle()
        assert one.counts.stored_objects == 3
        assert (two.counts.stored_objects, two.counts.duplicate_bytes) == (0, 0)
        assert two.counts.unwritten == {Unwritten.EXISTS: 24 * SMALL}
        assert set(two.desk.bucket.asked) == {Ask.HEAD}


async def test_a_turn_that_ends_in_an_object_is_restored_with_the_next(bucket: Opening) -> None:
    """The object at the junction comes in two pieces, and a pod that knows nothing takes it for
    one."""
    talk = keys_of("talk", 40)
    async with pods.running(bucket, chunk=SMALL) as writer:
        writer.fill(talk)
        writer.tell("1", chain(talk[:11]))
        await writer.store("1", talk, range(11))
        writer.tell("2", chain(talk))
        await writer.store("2", talk, range(11, 40))
        await writer.idle()
    async with pods.running(bucket, chunk=SMALL) as reader:
        sources = await reader.search("2", chain(talk))
        assert set(sources) == set(talk)
        loaded = await reader.load(talk, sources)
        assert loaded.done == set(talk)
        assert all(reader.holds(talk, index) for index in range(40))


async def test_a_chunk_that_is_damaged_is_a_miss_and_the_others_are_not(bucket: Opening) -> None:
    keys = keys_of("prompt", 16)
    async with pods.running(bucket, chunk=SMALL) as pod:
        pod.fill(keys)
        pod.tell("r", chain(keys))
        await pod.store("r", keys, range(16))
        await pod.idle()
        name = PLACE.name(0, keys[7][:-4])
        whole = bytearray(await _read(pod, name))
        whole[pod.layout.offset(3) + 17] ^= 1
        await _replace(pod, name, bytes(whole))
        pod.clear()
        loaded = await pod.load(keys, await pod.search("r", chain(keys)))
        assert loaded.done == set(keys) - {keys[4]}
        assert all(pod.holds(keys, index) for index in range(16) if index != 4)
        assert not pod.memory[4].any()
        assert pod.counts.lost == {Lost.DAMAGED: 1}
        # Its object is not read again. Its name is taken, so the chunks get another one when they
        # are offered again: all but the one that the name is of.
        assert set(await pod.search("r2", chain(keys))) == set()
        pod.fill(keys)
        pod.tell("r3", chain(keys))
        await pod.store("r3", keys, range(16))
        await pod.idle()
        assert set(await pod.search("r4", chain(keys))) == set(keys[:7])


@pytest.mark.parametrize("what", ["header", "length", "nothing"])
async def test_an_object_that_is_not_one_of_ours_is_a_miss(bucket: Opening, what: str) -> None:
    keys = keys_of("prompt", 8)
    async with pods.running(bucket, chunk=SMALL) as pod:
        pod.fill(keys)
        pod.tell("r", chain(keys))
        await pod.store("r", keys, range(8))
        await pod.idle()
        sources = await pod.search("r", chain(keys))
        name = PLACE.name(0, keys[7][:-4])
        whole = await _read(pod, name)
        bad = {"header": b"\0" * 8 + whole[8:], "length": whole[:-1000], "nothing": b""}[what]
        await _replace(pod, name, bad)
        pod.clear()
        loaded = await pod.load(keys, sources)
        # Of an object that ends early, the chunks before its end are right.
        assert loaded.done == (set(keys[1:]) if what == "length" else set())
        assert not pod.memory[0].any()


async def test_an_object_that_was_deleted_is_a_miss_and_is_written_again(bucket: Opening) -> None:
    keys = keys_of("prompt", 16)
    async with pods.running(bucket, chunk=SMALL) as pod:
        pod.fill(keys)
        pod.tell("r", chain(keys))
        await pod.store("r", keys, range(16))
        await pod.idle()
        sources = await pod.search("r", chain(keys))
        await pod.desk.bucket.delete(PLACE.name(0, keys[7][:-4]), seconds=10)
        loaded = await pod.load(keys, sources)
        assert loaded.done == set(keys[8:])
        assert pod.counts.lost == {Lost.MISSING: 8}
        assert set(await pod.search("r2", chain(keys))) == set()
        pod.tell("r3", chain(keys))
        await pod.store("r3", keys, range(16))
        await pod.idle()
        assert set(await pod.search("r4", chain(keys))) == set(keys)


async def _read(pod: pods.Pod, name: str) -> bytes:
    return (await pod.desk.bucket.read_whole(name, seconds=10))[0]


async def _replace(pod: pods.Pod, name: str, content: bytes) -> None:
    await pod.desk.bucket.delete(name, seconds=10)
    assert await pod.desk.bucket.create(name, [content], seconds=10)
