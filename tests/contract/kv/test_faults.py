"""A store that is late, hangs, resets, refuses, is busy, cuts, or lies: never more than a miss.

Each fault is made by a proxy before a real S3 store. What a test compares with is the order of
events and what was told, not how quick the machine is: deadlines are far apart.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.kv import faulty, pods
from tests.support.kv.backends import reached
from tests.support.kv.faulty import Harm, Proxy
from tests.support.kv.pods import Pod, chain
from tests.support.kv.prompts import keys_of
from tests.support.stores.real import RealStore

from kindling_runtime.contract import CacheReason
from kindling_runtime.kv.bucket import Bucket, Trouble, open_bucket
from kindling_runtime.kv.counts import Lost, Unwritten
from kindling_runtime.kv.policy.breaker import BreakerState
from kindling_runtime.kv.standing import standing

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60, func_only=True)]

CHUNK = 512 << 10
KEYS = keys_of("prompt", 16)
SHORT = 0.5


@dataclass
class Place:
    """A bucket with the prompt in it, behind a proxy that does no harm yet."""

    uri: str
    proxy: Proxy

    def open(self) -> Bucket:
        return open_bucket(self.uri)[0]


@pytest.fixture
async def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_of: Callable[[str], RealStore]
) -> AsyncIterator[Place]:
    store = store_of("s3")
    async with (
        reached(store, tmp_path, monkeypatch) as (uri, _),
        faulty.before(store) as proxy,
    ):
        for name, value in store.environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        found = Place(uri, proxy)
        async with pods.running(found.open, chunk=CHUNK, rows=16) as pod:
            await _stored(pod)
        assert pod.counts.stored_objects == 2
        yield found


async def _stored(pod: Pod) -> None:
    pod.fill(KEYS)
    pod.tell("writer", chain(KEYS))
    await pod.store("writer", KEYS, range(16))
    await pod.idle()


FAILURES = [
    (Harm.HANG, Trouble.LATE),
    (Harm.LATE, Trouble.LATE),
    (Harm.RESET, Trouble.UNREACHABLE),
    (Harm.REFUSE, Trouble.REFUSED),
    (Harm.BUSY, Trouble.BUSY),
    (Harm.FAIL, Trouble.BUSY),
]


@pytest.mark.parametrize(("harm", "trouble"), FAILURES)
async def test_a_search_ends_as_a_miss(place: Place, harm: Harm, trouble: Trouble) -> None:
    async with pods.running(place.open, chunk=CHUNK, deadlines={"search": SHORT}) as pod:
        place.proxy.breaks(harm, "HEAD", seconds=20)
        assert await pod.search("r", chain(KEYS)) == {}
        assert pod.desk.bucket.failed[trouble] >= 1
        place.proxy.heals()
        pod.desk.bucket.breaker.succeeded()
        assert len(await pod.search("r2", chain(KEYS))) in {0, 16}


@pytest.mark.parametrize(("harm", "trouble"), FAILURES)
async def test_a_load_ends_and_touches_nothing_afterwards(
    place: Place, harm: Harm, trouble: Trouble
) -> None:
    async with pods.running(place.open, chunk=CHUNK, deadlines={"load": SHORT}) as pod:
        sources = await pod.search("r", chain(KEYS))
        place.proxy.breaks(harm, "GET", seconds=20)
        loaded = await pod.load(KEYS, sources)
        assert loaded.done == set()
        why = Lost.LATE if trouble is Trouble.LATE else Lost.TROUBLE
        assert pod.counts.lost == {why: 16}
        pod.memory[:] = 7
        place.proxy.heals()
        await pod.idle()
        assert (pod.memory == 7).all()


@pytest.mark.parametrize(("harm", "trouble"), FAILURES)
async def test_a_write_ends_and_rows_come_back(place: Place, harm: Harm, trouble: Trouble) -> None:
    async with pods.running(place.open, chunk=CHUNK, deadlines={"store": SHORT}) as pod:
        keys = keys_of("other", 16)
        place.proxy.breaks(harm, "PUT", seconds=20)
        pod.fill(keys)
        pod.tell("r", chain(keys))
        job = await pod.store("r", keys, range(16))
        assert not job.dropped  # the rows were copied
        await pod.idle()
        assert pod.counts.stored_objects == 0
        assert pod.counts.unwritten[Unwritten.TROUBLE] == 2 * pod.layout.size(8)
        assert pod.desk.bucket.failed[trouble] >= 1


@pytest.mark.parametrize("harm", [Harm.CUT, Harm.CHANGE])
async def test_bytes_that_are_not_those_that_were_written_never_arrive(
    place: Place, harm: Harm
) -> None:
    async with pods.running(place.open, chunk=CHUNK) as pod:
        sources = await pod.search("r", chain(KEYS))
        place.proxy.breaks(harm, "GET", times=1)
        loaded = await pod.load(KEYS, sources)
        assert all(pod.holds(KEYS, KEYS.index(key)) for key in loaded.done)
        missing = set(KEYS) - loaded.done
        if harm is Harm.CHANGE:
            # One byte in the middle of an object is in one chunk of it.
            assert len(missing) == 1
            assert pod.counts.lost == {Lost.DAMAGED: 1}
        else:
            assert len(missing) in {0, 8}
        assert not any(pod.memory[KEYS.index(key)].any() for key in missing)


async def test_after_failures_in_a_row_the_store_is_left_alone_and_taken_back(
    place: Place,
) -> None:
    async with pods.running(place.open, chunk=CHUNK) as pod:
        breaker = pod.desk.bucket.breaker
        await pod.until(lambda: pod.desk.bucket.heard)
        place.proxy.breaks(Harm.BUSY, "HEAD")
        for number in range(breaker.failures):
            await pod.search(f"r{number}", chain(KEYS))
        assert breaker.opened == 1
        told = standing(pod.desk)
        assert told.reason is CacheReason.BREAKER_OPEN
        assert "is left out after 5 failures in a row (HTTP 503, Service" in told.message
        asked = len(place.proxy.seen)
        if breaker.state(pod.desk.clock()) is BreakerState.OPEN:
            assert await pod.search("while open", chain(KEYS)) == {}
            assert len(place.proxy.seen) <= asked + 1  # a try, if its time had come
        place.proxy.heals()
        # Nobody asks for anything: the tier finds out by itself.
        await pod.until(lambda: breaker.state(pod.desk.clock()) is BreakerState.CLOSED)
        assert standing(pod.desk).reason is CacheReason.IN_USE
        assert len(await pod.search("after", chain(KEYS))) == 16


async def test_a_slow_read_is_asked_for_twice_and_the_quicker_answer_is_taken(
    place: Place,
) -> None:
    async with pods.running(place.open, chunk=CHUNK) as pod:
        sources = await pod.search("r", chain(KEYS))
        for _ in range(30):
            pod.desk.hedge.took(0.05)
        place.proxy.breaks(Harm.LATE, "GET", seconds=20, times=1)
        loaded = await pod.load(KEYS, sources)
        assert loaded.done == set(KEYS)
        assert (pod.counts.hedges_won, pod.counts.lost) == (1, {})


async def test_a_bucket_that_is_not_there_is_a_miss(place: Place) -> None:
    other = place.uri.rstrip("/") + "-nonesuch"
    async with pods.running(lambda: open_bucket(other)[0], chunk=CHUNK) as pod:
        assert await pod.search("r", chain(KEYS)) == {}
        await _stored(pod)
        assert pod.counts.stored_objects == 0
