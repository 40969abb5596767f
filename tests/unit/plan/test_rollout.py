"""The rollout as a table of moments; tests/property/plan/test_rollout_orders.py has the ways."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from tests.support.observed import NOW, revision
from tests.support.standings import serving, shown, standing

from kindling_operator.model.api import OnFailure
from kindling_operator.model.plan import RolloutState
from kindling_operator.plan.rollout import next_step
from kindling_operator.plan.standing import Standing
from kindling_operator.plan.trial import CRASH_LOOP, Policy

DEADLINE = timedelta(minutes=45)
ROLLBACK = Policy(DEADLINE, OnFailure.ROLLBACK)
HOLD = Policy(DEADLINE, OnFailure.HOLD)
LATE = NOW + DEADLINE


STEADY, ROLLING = RolloutState.STEADY, RolloutState.ROLLING
HELD, BACK = RolloutState.HELD, RolloutState.ROLLED_BACK
NEW = standing("new", None)

# The wanted revision, the others, then the replicas to have, what is remembered, the state.
MOMENTS = {
    "the first revision": (NEW, [], {"new": 2}, [], ROLLING),
    "a revision that serves": (serving("new"), [], {"new": 2}, [], STEADY),
    "a served revision that has lost a pod": (
        standing("new", available=1, served=True),
        [],
        {"new": 2},
        [],
        STEADY,
    ),
    "a change": (NEW, [serving("old")], {"new": 2, "old": 2}, [], ROLLING),
    "the old one keeps its own number": (
        NEW,
        [serving("old", 5)],
        {"new": 2, "old": 5},
        [],
        ROLLING,
    ),
    "all available, none behind the Service": (
        standing("new", available=2),
        [serving("old")],
        {"new": 2, "old": 2},
        [],
        ROLLING,
    ),
    "behind the Service, one of two available": (
        standing("new", available=1, served=True, routed=1),
        [serving("old")],
        {"new": 2, "old": 2},
        [],
        ROLLING,
    ),
    "all behind the Service, no answer of them known": (
        serving("new", proven=False),
        [serving("old")],
        {"new": 2, "old": 2},
        [],
        ROLLING,
    ),
    "nothing else is ready, so no answer is waited for": (
        serving("new", proven=False),
        [standing("old", served=True)],
        {"new": 2},
        ["old"],
        STEADY,
    ),
    "taken over": (serving("new"), [serving("old")], {"new": 2}, ["old"], STEADY),
    "taken over, and remembered": (
        serving("new"),
        [standing("old", None, served=True)],
        {"new": 2},
        ["old"],
        STEADY,
    ),
    "only the last that served is remembered": (
        serving("new"),
        [standing("older", None, served=True), serving("old")],
        {"new": 2},
        ["old"],
        STEADY,
    ),
    "superseded before it served": (
        NEW,
        [standing("never", 2), serving("old")],
        {"new": 2, "old": 2},
        [],
        ROLLING,
    ),
    "two that serve stay both": (
        NEW,
        [serving("half"), serving("old")],
        {"new": 2, "half": 2, "old": 2},
        [],
        ROLLING,
    ),
    "back to one that had served": (
        standing("old", None, served=True),
        [serving("new")],
        {"old": 2, "new": 2},
        [],
        ROLLING,
    ),
}


@pytest.mark.parametrize(
    ("wanted", "others", "targets", "kept", "state"), MOMENTS.values(), ids=MOMENTS.keys()
)
def test_moment(
    wanted: Standing,
    others: list[Standing],
    targets: dict[str, int],
    kept: list[str],
    state: RolloutState,
) -> None:
    step = next_step(wanted, tuple(others), desired=2, policy=ROLLBACK, now=NOW)

    assert shown(step) == (targets, kept, state)
    assert not step.overdue


def test_nobody_waits_at_zero_replicas() -> None:
    step = next_step(NEW, (serving("old"),), desired=0, policy=ROLLBACK, now=LATE)

    assert shown(step) == ({"new": 0}, ["old"], STEADY)
    assert step.look_again is None


def test_a_failed_change_is_rolled_back_and_remembered() -> None:
    failed = standing("new", 2)

    step = next_step(failed, (serving("old"),), desired=3, policy=ROLLBACK, now=LATE)
    assert shown(step) == ({"old": 3}, ["new"], BACK)

    assert [each.failed for each in step.kept] == [True]

    gone = Standing(step.kept[0])
    later = next_step(
        gone, (serving("old"),), desired=3, policy=ROLLBACK, now=LATE + timedelta(days=9)
    )
    assert shown(later) == ({"old": 3}, ["new"], BACK)


def test_without_a_deployment_there_is_no_trial() -> None:
    """The operator was away for an hour after it had stored the revision."""
    stored = standing("new", None)

    step = next_step(stored, (serving("old"),), desired=2, policy=ROLLBACK, now=LATE)

    assert shown(step) == ({"new": 2, "old": 2}, [], ROLLING)
    assert not step.overdue
    assert step.look_again is None


def test_a_longer_deadline_tries_a_failed_revision_again() -> None:
    failed = Standing(replace(revision("new"), failed=True))
    longer = Policy(2 * DEADLINE, OnFailure.ROLLBACK)

    step = next_step(failed, (serving("old"),), desired=2, policy=longer, now=LATE)

    assert shown(step) == ({"new": 2, "old": 2}, [], ROLLING)
    assert [target.revision.failed for target in step.targets] == [False, False]


def test_a_revision_that_is_tried_again_has_its_whole_time_again() -> None:
    again = replace(standing("new", 2), deployed_at=LATE)

    step = next_step(again, (serving("old"),), desired=2, policy=ROLLBACK, now=LATE)

    assert not step.overdue
    assert step.look_again == LATE + DEADLINE


def test_a_failed_change_is_held_if_the_user_says_so() -> None:
    step = next_step(standing("new"), (serving("old"),), desired=2, policy=HOLD, now=LATE)

    assert shown(step) == ({"new": 2, "old": 2}, [], HELD)
    assert step.overdue


def test_a_first_revision_that_fails_is_tried_on() -> None:
    step = next_step(standing("new"), (), desired=2, policy=ROLLBACK, now=LATE)

    assert shown(step) == ({"new": 2}, [], ROLLING)
    assert step.overdue


def test_a_revision_that_never_served_is_nothing_to_go_back_to() -> None:
    step = next_step(standing("new"), (standing("never", 2),), desired=2, policy=ROLLBACK, now=LATE)

    assert shown(step) == ({"new": 2}, [], ROLLING)


def test_of_two_that_serve_the_newest_is_gone_back_to() -> None:
    others = (serving("half", 1), serving("old"))

    step = next_step(standing("new"), others, desired=2, policy=ROLLBACK, now=LATE)

    assert shown(step) == ({"half": 2, "old": 2}, ["new"], BACK)


def test_a_served_revision_that_is_wanted_again_and_does_not_serve_is_taken_back() -> None:
    known = standing("old", 2, served=True)

    early = next_step(known, (serving("new"),), desired=2, policy=ROLLBACK, now=NOW)
    assert shown(early) == ({"old": 2, "new": 2}, [], ROLLING)
    assert early.look_again == LATE

    late = next_step(known, (serving("new"),), desired=2, policy=ROLLBACK, now=LATE)
    assert shown(late) == ({"new": 2}, ["old"], BACK)


def test_a_revision_that_stands_alone_is_not_given_up_for_one_that_is_remembered() -> None:
    """It served for a day; what takes it away now is not the change of the spec."""
    known = standing("new", 2, served=True, crashes=99, trying_since=LATE + timedelta(days=1))
    old = standing("old", None, served=True)

    step = next_step(known, (old,), desired=2, policy=ROLLBACK, now=LATE + timedelta(days=2))

    assert shown(step) == ({"new": 2}, ["old"], STEADY)
    assert step.look_again is None


@pytest.mark.parametrize(
    ("beside", "policy", "expected"),
    [
        (serving("old"), ROLLBACK, ({"old": 2}, ["new"], BACK)),
        (serving("old"), HOLD, ({"new": 2, "old": 2}, [], HELD)),
        (standing("old", None, served=True), ROLLBACK, ({"old": 2}, ["new"], BACK)),
        (standing("old", None, served=True), HOLD, ({"new": 2}, ["old"], HELD)),
    ],
    ids=["beside", "beside, held", "after it took over", "after it took over, held"],
)
def test_a_revision_that_served_once_and_crashes_since_its_change_has_failed(
    beside: Standing, policy: Policy, expected: object
) -> None:
    soon = NOW + timedelta(minutes=5)
    crashing = standing("new", 2, served=True, crashes=CRASH_LOOP, trying_since=soon)
    once = replace(crashing, crashes=CRASH_LOOP - 1)

    step = next_step(crashing, (beside,), desired=2, policy=policy, now=soon)
    assert shown(step) == expected

    patient = next_step(once, (beside,), desired=2, policy=policy, now=soon)
    assert next(iter(shown(patient)[0])) == "new"
    assert not patient.overdue

    recovered = replace(crashing, available=1, trying_since=None)
    assert not next_step(recovered, (beside,), desired=2, policy=policy, now=LATE).overdue


def test_a_revision_that_crashed_is_not_tried_again_by_a_longer_deadline() -> None:
    failed = Standing(revision("new", served=True, failed=True))
    longer = Policy(2 * DEADLINE, OnFailure.ROLLBACK)

    step = next_step(failed, (serving("old"),), desired=2, policy=longer, now=NOW)

    assert shown(step) == ({"old": 2}, ["new"], BACK)


def test_a_failed_revision_is_nothing_to_go_back_to_or_to_remember() -> None:
    failed = Standing(revision("bad", served=True, failed=True))

    step = next_step(
        standing("new"), (failed, serving("old")), desired=2, policy=ROLLBACK, now=LATE
    )
    assert shown(step) == ({"old": 2}, ["new"], BACK)

    alone = next_step(serving("new"), (failed,), desired=2, policy=ROLLBACK, now=NOW)
    assert shown(alone) == ({"new": 2}, [], STEADY)


def test_waiting_for_a_node_is_no_failure() -> None:
    """Its pods have been pending since long before anybody freed a GPU."""
    waiting = standing("new", 2, placed=0, trying_since=None)

    step = next_step(
        waiting, (serving("old"),), desired=2, policy=ROLLBACK, now=LATE + timedelta(days=1)
    )

    assert shown(step) == ({"new": 2, "old": 2}, [], ROLLING)
    assert step.look_again is None


def test_time_runs_from_when_a_replica_got_its_node() -> None:
    """Asked for long ago, placed a minute ago."""
    placed = LATE + timedelta(hours=5)
    wanted = standing("new", 1, trying_since=placed)

    early = next_step(wanted, (), desired=1, policy=ROLLBACK, now=placed)
    assert not early.overdue
    assert early.look_again == placed + DEADLINE

    late = next_step(wanted, (), desired=1, policy=ROLLBACK, now=placed + DEADLINE)
    assert late.overdue
    assert late.look_again is None


OLD = frozenset({"old"})


def test_a_deadline_that_nobody_gives_is_never_shorter_than_the_plans_own_start() -> None:
    """Inkling in BF16 may take hours to load: a rollout gives up no earlier than its runtime."""
    unlimited = Policy(None, OnFailure.ROLLBACK)
    quick, slow = (
        replace(plan, plan=msgspec.structs.replace(plan.plan, startup_seconds=seconds))
        for plan, seconds in ((revision("quick"), 900), (revision("slow"), 10_200))
    )

    assert unlimited.deadline_of(quick) == timedelta(minutes=45)
    assert unlimited.deadline_of(slow) == timedelta(seconds=10_200)
    assert Policy(timedelta(minutes=5), OnFailure.HOLD).deadline_of(slow) == timedelta(minutes=5)
