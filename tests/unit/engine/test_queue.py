"""The queue as workers see it."""

import asyncio

from tests.support.clock import Clock

from kindling_operator.reconcile.queue import Queue
from kindling_operator.reconcile.schedule import Backoff


def queue(clock: Clock) -> Queue[str]:
    return Queue(backoff=Backoff(first=1.0, cap=60.0), clock=clock, chance=lambda: 0.0)


async def test_a_waiting_worker_gets_a_key_that_is_added_later() -> None:
    keys = Queue[str]()
    waiting = asyncio.create_task(keys.get(within=10))
    await asyncio.sleep(0.01)

    keys.add("a")

    assert await asyncio.wait_for(waiting, 5) == "a"


async def test_a_worker_that_waits_in_vain_gets_nothing() -> None:
    assert await Queue[str]().get(within=0.01) is None


async def test_a_worker_wakes_for_a_key_that_comes_due() -> None:
    keys = Queue[str]()
    keys.add_after("a", 0.02)

    assert await keys.get(within=10) == "a"


async def test_a_key_that_is_done_goes_to_a_second_worker_if_it_changed_meanwhile() -> None:
    keys = Queue[str]()
    keys.add("a")
    assert await keys.get(within=1) == "a"
    second = asyncio.create_task(keys.get(within=10))
    keys.add("a")
    await asyncio.sleep(0.01)
    assert not second.done()

    keys.done("a")

    assert await asyncio.wait_for(second, 5) == "a"


async def test_two_keys_reach_two_workers_at_once() -> None:
    keys = Queue[str]()
    workers = [asyncio.create_task(keys.get(within=10)) for _ in range(2)]
    await asyncio.sleep(0.01)
    keys.add("a")
    keys.add("b")

    assert sorted(filter(None, await asyncio.gather(*workers))) == ["a", "b"]


async def test_retries_come_later_each_time_until_the_key_is_forgotten() -> None:
    clock = Clock()
    keys = queue(clock)

    assert [keys.retry("a") for _ in range(3)] == [1.0, 2.0, 4.0]
    keys.forget("a")
    assert keys.retry("a") == 1.0


async def test_a_retry_waits_as_long_as_the_server_asks_for() -> None:
    assert queue(Clock()).retry("a", at_least=30.0) == 30.0


async def test_a_failing_key_does_not_delay_another() -> None:
    clock = Clock()
    keys = queue(clock)
    keys.retry("a")
    keys.add("b")

    assert await keys.get(within=1) == "b"
    clock.now += 1.0
    assert await keys.get(within=1) == "a"


async def test_a_closed_queue_gives_out_no_key_and_waits_for_those_in_work() -> None:
    keys = Queue[str]()
    keys.add("a")
    keys.add("b")
    assert await keys.get(within=0) == "a"
    keys.close()

    assert await keys.get(within=60) is None
    assert not await keys.drained(within=0.01)
    waiting = asyncio.create_task(keys.drained(within=60))
    await asyncio.sleep(0)
    keys.done("a")
    assert await waiting


async def test_who_waits_for_a_key_when_the_queue_is_closed_gets_none() -> None:
    keys = Queue[str]()
    waiting = asyncio.create_task(keys.get(within=60))
    await asyncio.sleep(0)
    keys.close()

    assert await asyncio.wait_for(waiting, 5) is None
