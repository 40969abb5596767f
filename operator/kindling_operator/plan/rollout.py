"""Which revisions have how many replicas now. Pure, and stateless: all is derived from what stands.

A revision that never served is dropped at once when another is wanted. One that serves leaves when
the wanted one has all its replicas and an answer of one of them is known to have come through the
Service; where there is no room for both, replica by replica. A wanted revision that fails its trial
is taken back, or held, if an older one has served.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from kindling_operator.model.api import OnFailure
from kindling_operator.model.plan import Revision, RevisionTarget, RolloutState
from kindling_operator.plan.standing import Standing
from kindling_operator.plan.succession import PLENTY, Capacity, Waits, succession
from kindling_operator.plan.trial import Policy, trial_of


@dataclass(frozen=True, slots=True)
class Step:
    """The replicas to have now, the wanted revision first.

    `kept` are revisions of which the memory alone stays. `overdue` is True if the wanted one has
    failed its trial and stays; `look_again` is when time alone would decide that. `waits` tells
    what those of its replicas wait for that have no room. With `ask`, older replicas stay until an
    answer through the Service is known to have come from the wanted revision.
    """

    targets: tuple[RevisionTarget, ...]
    kept: tuple[Revision, ...]
    state: RolloutState
    overdue: bool = False
    look_again: datetime | None = None
    waits: Waits | None = None
    ask: bool = False


def next_step(
    wanted: Standing,
    others: tuple[Standing, ...],
    *,
    desired: int,
    policy: Policy,
    now: datetime,
    capacity: Capacity = PLENTY,
) -> Step:
    """One step; `others` are the model's other stored revisions, the newest first."""
    older = tuple(each for each in others if each.deployed and each.revision.served)
    trial = trial_of(wanted, others, desired=desired, policy=policy, now=now)
    # 1. It has failed, and there is one that served: that one is wanted again.
    if trial.failed and trial.back is not None and policy.on_failure is OnFailure.ROLLBACK:
        return _rolled_back(wanted, trial.back, others, desired=desired, policy=policy, now=now)
    # 2. Nobody needs the older ones any more, or there are none: the wanted one stands alone.
    if not older or is_complete(wanted, older, desired):
        step = _alone(wanted, others, desired=desired)
    # 3. Both stand, with as many replicas as there is room for.
    else:
        step = _side_by_side(wanted, older, others, desired=desired, capacity=capacity)
    if trial.failed:
        state = RolloutState.HELD if trial.back is not None else step.state
        return replace(step, overdue=True, state=state)
    return replace(step, look_again=trial.end)


def is_complete(wanted: Standing, older: tuple[Standing, ...], desired: int) -> bool:
    """Whether a revision has taken over: all its replicas serve, or nothing else is left.

    Where no older one is ready, an answer through the Service tells nothing that matters.
    """
    if desired == 0:
        return True
    serving = wanted.serving if any(each.available for each in older) else wanted.routed
    left = any(each.replicas or each.placed or each.leaving for each in older)
    return serving >= desired or (serving > 0 and bool(older) and not left)


def changes_nothing(step: Step, standing: tuple[Standing, ...]) -> bool:
    """Whether a step to a revision that is not stored yet leaves everything as it stands."""
    if step.targets[0].replicas:
        return False
    given = {target.revision.hash: target.replicas for target in step.targets}
    return all(given.get(each.revision.hash) == each.replicas for each in standing if each.deployed)


def _alone(wanted: Standing, others: tuple[Standing, ...], *, desired: int) -> Step:
    """The wanted revision with all its replicas; the last that served before it is remembered."""
    settled = wanted.revision.served or is_complete(wanted, (), desired)
    return Step(
        targets=(_target(wanted, desired),),
        kept=_history(others, ()),
        state=RolloutState.STEADY if settled else RolloutState.ROLLING,
    )


def _side_by_side(
    wanted: Standing,
    older: tuple[Standing, ...],
    others: tuple[Standing, ...],
    *,
    desired: int,
    capacity: Capacity,
) -> Step:
    """The wanted revision and those that serve in its place as yet."""
    found = succession(wanted, older, desired=desired, capacity=capacity)
    return Step(
        targets=(
            _target(wanted, found.wanted),
            *(RevisionTarget(each.revision, found.older[each.revision.hash]) for each in older),
        ),
        kept=_history(others, older),
        state=RolloutState.ROLLING,
        waits=found.waits,
        ask=wanted.routed > 0 and not wanted.proven,
    )


def _target(wanted: Standing, replicas: int) -> RevisionTarget:
    why = "" if wanted.revision.failed else wanted.revision.why
    return RevisionTarget(replace(wanted.revision, failed=False, why=why), replicas)


def _rolled_back(
    failed: Standing,
    back: Standing,
    others: tuple[Standing, ...],
    *,
    desired: int,
    policy: Policy,
    now: datetime,
) -> Step:
    """The older revision is wanted; the failed one is remembered, so as not to be tried again.

    The replicas of the failed one go at once, so there is room for those of the older one.
    """
    left = tuple(each for each in others if each is not back)
    step = next_step(back, left, desired=desired, policy=policy, now=now)
    why = failed.revision.why if failed.revision.failed else failed.why
    memory = replace(failed.revision, failed=True, why=why)
    return replace(step, kept=(memory, *step.kept), state=RolloutState.ROLLED_BACK)


def _history(others: tuple[Standing, ...], beside: tuple[Standing, ...]) -> tuple[Revision, ...]:
    """The one revision to remember: the last that served, which is the one still deployed."""
    served = [
        each
        for each in others
        if each.revision.served and not each.revision.failed and each not in beside
    ]
    last = next((each for each in served if each.deployed), served[0] if served else None)
    return () if last is None else (last.revision,)
