"""The rollout as a table of moments, and whole rollouts as invariants."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.support.builders import NOW
from tests.support.observed import PLAN

from kindling_operator.model.api import OnFailure
from kindling_operator.model.plan import Revision, RolloutState
from kindling_operator.plan.rollout import Policy, Step, all_steps, next_step
from kindling_operator.plan.standing import Standing

DEADLINE = timedelta(minutes=45)
ROLLBACK = Policy(DEADLINE, OnFailure.ROLLBACK)
HOLD = Policy(DEADLINE, OnFailure.HOLD)
LATE = NOW + DEADLINE


def revision(name: str, *, served: bool = False, created: datetime | None = NOW) -> Revision:
    return Revision(hash=name, inputs=name, replan="", plan=PLAN, served=served, created=created)


def standing(
    name: str,
    replicas: int | None = 2,
    *,
    available: int = 0,
    served: bool = False,
    routed: bool = False,
    created: datetime | None = NOW,
    started: datetime | None = None,
) -> Standing:
    return Standing(
        revision(name, served=served, created=created),
        replicas=replicas,
        available=available,
        routed=routed,
        deployed_at=created if replicas is not None else None,
        started=started,
    )


def serving(name: str, replicas: int = 2) -> Standing:
    return standing(name, replicas, available=replicas, served=True, routed=True)


def shown(step: Step) -> tuple[dict[str, int], list[str], RolloutState]:
    targets = {target.revision.hash: target.replicas for target in step.targets}
    return targets, [each.hash for each in step.kept], step.state


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
        standing("new", available=1, served=True, routed=True),
        [serving("old")],
        {"new": 2, "old": 2},
        [],
        ROLLING,
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


def test_a_revision_that_has_served_is_never_given_up() -> None:
    known = standing("old", 2, served=True)

    step = next_step(known, (serving("new"),), desired=2, policy=ROLLBACK, now=LATE)

    assert shown(step) == ({"old": 2, "new": 2}, [], ROLLING)
    assert step.look_again is None


def test_time_runs_from_the_first_pod_of_a_revision_that_had_none_before() -> None:
    """Created long ago at zero replicas, scaled up a minute ago."""
    started = LATE + timedelta(hours=5)
    wanted = standing("new", 1, started=started)

    early = next_step(wanted, (), desired=1, policy=ROLLBACK, now=started)
    assert not early.overdue
    assert early.look_again == started + DEADLINE

    late = next_step(wanted, (), desired=1, policy=ROLLBACK, now=started + DEADLINE)
    assert late.overdue
    assert late.look_again is None


def settled(stand: Standing, replicas: int | None) -> Standing:
    """Whatever is asked for comes up, is ready and behind the Service."""
    if replicas is None:
        return Standing(stand.revision)
    return serving(stand.revision.hash, replicas)


def broken(stand: Standing, replicas: int | None) -> Standing:
    """The revision "new" never comes up."""
    if stand.revision.hash != "new":
        return settled(stand, replicas)
    made = NOW if replicas is not None else None
    return Standing(stand.revision, replicas=replicas, deployed_at=made)


@pytest.mark.parametrize("desired", [1, 2, 5])
@pytest.mark.parametrize("policy", [ROLLBACK, HOLD], ids=["Rollback", "Hold"])
@pytest.mark.parametrize("settle", [settled, broken], ids=["comes up", "never comes up"])
@pytest.mark.parametrize(
    "others",
    [
        (serving("old"),),
        (serving("half", 1), serving("old")),
        (standing("never", 2), serving("old")),
        (standing("idle", None, served=True), serving("old", 4)),
    ],
    ids=["one serves", "two serve", "one never served", "one is remembered"],
)
def test_whole_rollouts(
    others: tuple[Standing, ...],
    settle: object,
    policy: Policy,
    desired: int,
) -> None:
    """At every step something serves; it ends soon, and with the right revisions."""
    steps = all_steps(
        NEW,
        others,
        desired=desired,
        policy=policy,
        now=NOW,
        settle=settle,  # type: ignore[arg-type]
    )
    was_serving = {each.revision.hash for each in others if each.deployed and each.revision.served}

    assert len(steps) <= 4
    for step in steps:
        targets = {target.revision.hash: target.replicas for target in step.targets}
        remembered = {each.hash for each in step.kept}
        assert not targets.keys() & remembered
        assert len(remembered) <= 2
        assert any(targets.get(name, 0) > 0 for name in was_serving) or settle is settled
    last = {target.revision.hash: target.replicas for target in steps[-1].targets}
    if settle is settled:
        assert last == {"new": desired}
        assert steps[-1].state is STEADY
    elif policy is HOLD:
        assert last["new"] == desired
        assert steps[-1].state is HELD
    else:
        assert list(last.values()) == [desired]
        assert "new" not in last
        assert steps[-1].state is BACK
