"""Replicas come and go as there is room for them."""

from datetime import timedelta

import pytest
from tests.support.observed import NOW
from tests.support.standings import serving, shown, standing

from kindling_operator.model.api import OnFailure
from kindling_operator.plan.rollout import next_step
from kindling_operator.plan.standing import Standing
from kindling_operator.plan.succession import Capacity, Waits
from kindling_operator.plan.trial import Policy

DEADLINE = timedelta(minutes=45)
ROLLBACK = Policy(DEADLINE, OnFailure.ROLLBACK)
HOLD = Policy(DEADLINE, OnFailure.HOLD)
LATE = NOW + DEADLINE


NEW = standing("new", None)
OLD = frozenset({"old"})

# The wanted revision, the old one, the room; then the replicas to have and what is waited for.
ROOM = {
    "no spare, one replica": (NEW, serving("old", 1), (0, 1), {"new": 0, "old": 1}, "Capacity"),
    "no spare, two replicas": (NEW, serving("old"), (0, 2), {"new": 0, "old": 1}, "Turn"),
    "a spare for one of two": (NEW, serving("old"), (1, 2), {"new": 1, "old": 2}, "Turn"),
    "a spare for each": (NEW, serving("old"), (2, 2), {"new": 2, "old": 2}, None),
    "one has left": (
        standing("new", 0),
        standing("old", 1, available=1, routed=1, served=True, leaving=1),
        (0, 2),
        {"new": 0, "old": 1},
        "Turn",
    ),
    "its GPUs are free": (
        standing("new", 0),
        serving("old", 1),
        (1, 2),
        {"new": 1, "old": 1},
        "Turn",
    ),
    "the new one loads": (
        standing("new", 1),
        serving("old", 1),
        (1, 2),
        {"new": 1, "old": 1},
        "Turn",
    ),
    "the new one serves, the answer is not known": (
        serving("new", 1, proven=False),
        serving("old", 1),
        (1, 2),
        {"new": 1, "old": 1},
        "Turn",
    ),
    "the new one serves": (
        serving("new", 1),
        serving("old", 1),
        (1, 2),
        {"new": 1, "old": 0},
        "Turn",
    ),
    "two of three new ones fit and serve": (
        serving("new", 2),
        serving("old", 3),
        (2, 3),
        {"new": 2, "old": 1},
        "Turn",
    ),
    "an unhealthy old one makes room": (
        NEW,
        standing("old", 2, available=1, routed=1, served=True),
        (0, 2),
        {"new": 0, "old": 1},
        "Turn",
    ),
    "an unhealthy single one makes room": (
        NEW,
        standing("old", 1, served=True),
        (0, 1),
        {"new": 0, "old": 0},
        "Turn",
    ),
    "an unhealthy one that would make none stays": (
        NEW,
        standing("old", 1, served=True),
        (0, 0),
        {"new": 0, "old": 1},
        "Capacity",
    ),
}


@pytest.mark.parametrize(
    ("wanted", "old", "room", "targets", "waits"), ROOM.values(), ids=ROOM.keys()
)
def test_replicas_come_as_there_is_room(
    wanted: Standing,
    old: Standing,
    room: tuple[int, int],
    targets: dict[str, int],
    waits: str | None,
) -> None:
    desired = max(old.replicas or 0, room[1])
    capacity = Capacity(*room, frees=OLD, leaving=old.leaving)

    step = next_step(wanted, (old,), desired=desired, policy=ROLLBACK, now=NOW, capacity=capacity)

    assert (shown(step)[0], step.waits) == (targets, waits and Waits(waits))


def test_no_replica_leaves_that_would_not_make_room() -> None:
    """Each new one needs two GPUs of one node, and every old one has one on a node of its own."""
    capacity = Capacity(0, 1, frees=frozenset())

    step = next_step(NEW, (serving("old"),), desired=2, policy=ROLLBACK, now=NOW, capacity=capacity)

    assert (shown(step)[0], step.waits) == ({"new": 0, "old": 2}, Waits.CAPACITY)


def test_a_place_that_others_took_is_not_followed_by_another_while_they_wait() -> None:
    """Three were wanted, one has left, and a pod of somebody else got its GPU."""
    wanted, old = standing("new", 0), serving("old", 2)

    contested = Capacity(0, 2, frees=OLD, contested=True)
    step = next_step(wanted, (old,), desired=3, policy=ROLLBACK, now=NOW, capacity=contested)
    assert (shown(step)[0], step.waits) == ({"new": 0, "old": 2}, Waits.CAPACITY)

    quiet = Capacity(0, 2, frees=OLD)
    step = next_step(wanted, (old,), desired=3, policy=ROLLBACK, now=NOW, capacity=quiet)
    assert (shown(step)[0], step.waits) == ({"new": 0, "old": 1}, Waits.TURN)


def test_an_answer_is_asked_for_as_long_as_older_ones_wait_for_it() -> None:
    unknown = serving("new", proven=False)

    def asks(wanted: Standing, *others: Standing) -> bool:
        return next_step(wanted, others, desired=2, policy=ROLLBACK, now=NOW).ask

    assert asks(unknown, serving("old"))
    assert not asks(serving("new", 1), serving("old"))
    assert not asks(standing("new"), serving("old"))
    assert not asks(unknown)
    assert not asks(unknown, standing("old", None, served=True))
