"""The scheduler's side: answers without waiting, jobs that are told of once."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from obstore.store import MemoryStore
from tests.support.clock import Clock
from tests.support.kv.pods import PLACE, settings_for
from tests.support.kv.prompts import keys_of

from kindling_runtime.kv.bucket import Bucket
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.engine import Engine
from kindling_runtime.kv.front import Answer, Front, Shape, chains_of
from kindling_runtime.kv.policy.layout import Layout
from kindling_runtime.kv.rows import Rows

SHAPES = {0: Shape(16, None), 1: Shape(32, 2)}


def desk() -> Desk:
    memory = np.zeros((8, 64), np.uint8)
    bucket = Bucket(MemoryStore())
    return Desk(settings_for(), bucket, PLACE, Layout(2, 64), Rows(memory.data))


def positions(keys: list[bytes], tokens: int = 16) -> Callable[[], list[tuple[bytes, int]]]:
    return lambda: [(key, (index + 1) * tokens) for index, key in enumerate(keys)]


def test_chains_go_from_the_beginning_to_the_first_chunk_that_is_not_told() -> None:
    full, tails = keys_of("p", 6), keys_of("p", 3, group=1)
    told = [*positions(full)(), *positions(tails, 32)(), (keys_of("p", 9, group=7)[0], 16)]
    told.remove((full[4], 80))
    told.append((full[5], 90))  # ends inside a chunk
    both = chains_of(reversed(told), SHAPES)
    assert [(c.group, c.tokens, c.keys, c.window) for c in both] == [
        (0, 16, tuple(full[:4]), None),
        (1, 32, tuple(tails), 2),
    ]


def test_without_an_engine_everything_is_a_miss_and_every_job_ends() -> None:
    front, keys = Front(None, SHAPES, 1.0), keys_of("p", 3)
    assert front.lookup("r", keys[0], 16, positions(keys)) is Answer.MISS
    front.store(1, "r", [(keys[0], 0, 16)], positions(keys))
    front.load(2, "r", keys, [0, 1, 2])
    ended = front.ended()
    assert [(each.job, each.success, each.done) for each in ended] == [
        (1, False, None),
        (2, False, frozenset()),
    ]
    assert front.ended() == []
    front.finished("r")
    front.step()
    front.wait_idle()
    front.stop()


def test_a_search_that_has_no_answer_in_time_is_a_miss() -> None:
    """Also when the tier's thread does not get to it."""
    clock = Clock()
    engine = Engine(desk)
    engine.start()
    try:
        front, keys = Front(engine, SHAPES, 1.0, clock), keys_of("p", 3)
        assert front.lookup("r", keys[0], 16, positions(keys)) is Answer.LATER
        clock.now += 0.9  # its orders are not given before the end of a step
        assert front.lookup("r", keys[0], 16, positions(keys)) is Answer.LATER
        clock.now += 0.2
        assert front.lookup("r", keys[0], 16, positions(keys)) is Answer.MISS
    finally:
        front.stop()


def test_when_the_thread_has_died_its_jobs_are_told_of_once_and_nothing_hangs() -> None:
    engine = Engine(desk)
    engine.start()
    front, keys = Front(engine, SHAPES, 20.0), keys_of("p", 4)
    # The first of two chunks of an object waits for the other.
    front.store(1, "r", [(keys[0], 0, 16)], positions(keys))
    assert engine._loop is not None
    engine._loop.call_soon_threadsafe(engine._stopped.set)
    assert engine._thread is not None
    engine._thread.join(20)
    front.load(2, "r", keys, [0, 1, 2, 3])
    assert sorted((each.job, each.success) for each in front.ended()) == [(1, False), (2, False)]
    assert front.ended() == []
    assert front.lookup("r", keys[0], 16, positions(keys)) is Answer.MISS
    front.wait_idle()
    front.stop()


def test_what_a_thread_cannot_be_made_of_is_told_to_who_starts_it() -> None:
    def refuse() -> Desk:
        raise ValueError("no such bucket")

    engine = Engine(refuse)
    with pytest.raises(ValueError, match="no such bucket"):
        engine.start()
    engine.stop()


async def test_the_thread_ends_with_loads_under_way() -> None:
    engine = Engine(desk)
    engine.start()
    front, keys = Front(engine, SHAPES, 20.0), keys_of("p", 4)
    front.lookup("r", keys[0], 16, positions(keys))
    front.step()
    front.load(1, "r", keys, [0, 1, 2, 3])
    await asyncio.to_thread(front.stop)
    assert engine.has_ended
