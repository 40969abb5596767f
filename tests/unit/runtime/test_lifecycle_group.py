"""The state machine of a pod in a group, which leaves with its leader."""

import dataclasses

import pytest
from tests.support.histories import (
    CRASH,
    DRAIN,
    MISS,
    PROBE,
    SERVING,
    START,
    TERM,
    TICK,
    History,
    after,
)

from kindling_runtime.contract import (
    DrainStep,
    EvidenceSource,
    ExitCode,
    Phase,
    Reason,
)
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.state import (
    GroupBroken,
    Idle,
    Miss,
    Order,
    Signal,
    State,
    Token,
)

FOLLOWER = Lifecycle(probe=PROBE, drain=DRAIN, started=0.0, gather_seconds=1800, follows=True)
HEARD = Token(EvidenceSource.LEADER)
GATHERED: History = [(1, Signal.GATHERING), (900, Signal.GATHERED), (901, START)]
FOLLOWING: History = [*GATHERED, (902, HEARD)]
LOST = GroupBroken("the leader of the group has started again")


def followed(history: History) -> State:
    """The state of a follower that answers no requests."""
    state = FOLLOWER.begin()
    for now, event in history:
        state = FOLLOWER.advance(state, event, now=now)
    return state


def test_waiting_for_the_group_has_a_deadline_of_its_own() -> None:
    waiting = followed([(1, Signal.GATHERING), (2, Miss("1 of 2 pods are there and wait"))])
    assert (waiting.phase, waiting.reason) == (Phase.STARTING, Reason.GATHERING)
    assert FOLLOWER.deadline(waiting) == 1 + 1800

    late = FOLLOWER.advance(waiting, TICK, now=1801)
    assert (late.phase, late.reason) == (Phase.FAILED, Reason.START_DEADLINE_EXCEEDED)
    assert "the group was not complete within 1800 s (1 of 2 pods are there" in late.message


def test_the_time_to_start_begins_when_the_group_is_complete() -> None:
    leader = dataclasses.replace(FOLLOWER, follows=False)
    assert leader.deadline(followed(GATHERED)) == 900 + PROBE.startup_seconds


def test_a_follower_leaves_it_to_its_leader_how_long_a_load_may_take() -> None:
    assert FOLLOWER.deadline(followed(GATHERED)) is None


def test_a_load_of_the_group_that_stands_still_is_given_up_by_the_name_of_a_pod() -> None:
    stuck = followed([*GATHERED, (970, Idle(62, pod=1))])
    assert (stuck.phase, stuck.reason) == (Phase.FAILED, Reason.STUCK)
    assert "for 62 s the processes of pod 1 of the group read nothing" in stuck.message
    assert "and no other pod is at work" in stuck.message


def test_a_follower_is_ready_while_its_leader_answers() -> None:
    assert followed(FOLLOWING).ready
    stalled = followed([*FOLLOWING, (910, MISS), (911, MISS)])
    assert (stalled.phase, stalled.message) == (
        Phase.STALLED,
        "the leader was not heard in 2 looks in a row: it did not answer",
    )
    assert followed([*FOLLOWING, (910, MISS), (911, MISS), (912, HEARD)]).ready


def test_a_follower_gives_its_engine_up_when_the_leader_is_silent() -> None:
    lost = followed([*FOLLOWING, (910, MISS), (970, TICK)])
    assert (lost.phase, lost.reason, lost.order) == (
        Phase.FAILED,
        Reason.GROUP_BROKEN,
        Order.TERMINATE,
    )


@pytest.mark.parametrize("history", [GATHERED, FOLLOWING], ids=["loading", "ready"])
def test_a_broken_group_ends_the_engine(history: History) -> None:
    broken = followed([*history, (950, LOST)])
    assert (broken.phase, broken.reason, broken.message) == (
        Phase.FAILED,
        Reason.GROUP_BROKEN,
        LOST.why,
    )
    assert broken.order is Order.TERMINATE


def test_a_follower_that_is_told_to_leave_waits_for_its_leader() -> None:
    leaving = [*FOLLOWING, (1000, TERM)]
    waits = followed(leaving)
    assert (waits.step, waits.order) == (DrainStep.LEADER, Order.RUN)
    assert followed([*leaving, (1001, LOST)]) == waits
    assert FOLLOWER.deadline(waits) == 1000 + 5 + 30

    for end in (Signal.LEADER_GONE, TERM):
        assert followed([*leaving, (1010, end)]).order is Order.TERMINATE
    assert followed([*leaving, (1035, TICK)]).order is Order.TERMINATE

    gone = followed([*leaving, (1010, Signal.LEADER_GONE), (1012, CRASH)])
    assert (gone.phase, gone.reason, gone.exit_code) == (
        Phase.STOPPED,
        Reason.DRAINED,
        ExitCode.CLEAN,
    )


def test_events_of_a_group_leave_other_pods_alone() -> None:
    serving = after(SERVING)
    assert after([*SERVING, (50, Signal.LEADER_GONE)]) == serving
