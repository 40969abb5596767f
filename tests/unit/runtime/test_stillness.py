"""When a load that stands still is given up: the policy over a clock of its own."""

import pytest

from kindling_runtime.loading import LOOK_SECONDS, READ_BYTES, Stillness, Work
from kindling_runtime.state import Idle, Worked


def idle_after(works: list[Work], *, stuck: float, every: float = LOOK_SECONDS) -> float | None:
    """When idle is said first, in seconds since the first look."""
    still = Stillness(works[0], now=0.0, stuck_seconds=stuck)
    for number, work in enumerate(works[1:], start=1):
        if isinstance(still.seen(work, now=number * every), Idle):
            return number * every
    return None


@pytest.mark.parametrize("stuck", [3, 5, 60, 61, 600])
def test_it_is_found_within_a_look_of_its_time_and_not_before(stuck: int) -> None:
    found = idle_after([Work()] * 400, stuck=stuck)

    assert found is not None
    assert stuck <= found < stuck + LOOK_SECONDS


def test_the_time_begins_with_the_last_thing_done() -> None:
    works = [Work(), *[Work(read=READ_BYTES)] * 100]
    assert idle_after(works, stuck=10) == LOOK_SECONDS + 10


def test_it_is_said_again_for_as_long_as_it_lasts_and_no_longer() -> None:
    still = Stillness(Work(), now=0.0, stuck_seconds=4)
    said = [still.seen(Work(), now=now) for now in (2.0, 4.0, 6.0)]
    assert said == [None, Idle(4), Idle(6)]
    assert still.seen(Work(seconds=2.0), now=8.0) == Worked(moved=False)
    assert still.seconds == 0.0
    assert still.seen(Work(seconds=2.0), now=10.0) is None


def test_a_time_in_which_nobody_looked_is_not_held_against_it() -> None:
    still = Stillness(Work(), now=0.0, stuck_seconds=60)
    assert still.seen(Work(), now=1000.0) is None
    assert still.seconds == 2 * LOOK_SECONDS
