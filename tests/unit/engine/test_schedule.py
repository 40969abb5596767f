"""The queue's bookkeeping: order, one worker per key, due times, backoff."""

import pytest

from kindling_operator.reconcile.schedule import Backoff, Schedule


def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    schedule: Schedule[str] = Schedule()
    for key in ("a", "b", "c", "a"):
        schedule.add(key)

    assert [schedule.take(0), schedule.take(0), schedule.take(0)] == ["a", "b", "c"]
    assert schedule.take(0) is None


def test_a_key_in_work_is_not_given_out_again_and_its_change_is_not_lost() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("a")
    assert schedule.take(0) == "a"
    schedule.add("a")
    assert schedule.take(0) is None

    schedule.done("a")

    assert schedule.take(0) == "a"
    schedule.done("a")
    assert schedule.take(0) is None


def test_a_key_becomes_ready_when_it_is_due_and_not_before() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add_at("a", 10)

    assert schedule.next_due() == 10
    assert schedule.take(9.99) is None
    assert schedule.take(10) == "a"
    assert schedule.next_due() is None


def test_the_earliest_of_several_due_times_counts() -> None:
    schedule: Schedule[str] = Schedule()
    for due in (20, 10, 30):
        schedule.add_at("a", due)

    assert schedule.take(10) == "a"
    schedule.done("a")
    assert schedule.take(100) is None


def test_an_event_makes_a_key_ready_that_was_due_later() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add_at("a", 10)
    schedule.add("a")

    assert schedule.take(0) == "a"
    schedule.done("a")
    assert schedule.take(100) is None


def test_a_key_that_comes_due_while_in_work_is_worked_on_again() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("a")
    assert schedule.take(0) == "a"
    schedule.add_at("a", 5)
    assert schedule.take(6) is None

    schedule.done("a")

    assert schedule.take(6) == "a"


def test_only_keys_that_wait_for_a_worker_are_counted() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("a")
    schedule.add("b")
    schedule.add_at("c", 10)
    schedule.take(0)

    assert len(schedule) == 1


@pytest.mark.parametrize(
    ("failures", "chance", "seconds"),
    [
        (1, 0.0, 0.1),
        (2, 0.0, 0.2),
        (5, 0.0, 1.6),
        (5, 0.5, 1.2),
        (12, 0.0, 204.8),
        (13, 0.0, 300.0),
        (10_000, 0.0, 300.0),
        (10_000, 0.99, 151.5),
    ],
)
def test_backoff_doubles_up_to_its_cap_less_jitter(
    failures: int, chance: float, seconds: float
) -> None:
    assert Backoff().after(failures, chance=chance) == pytest.approx(seconds)
