"""Which revisions have how many replicas now. Pure, and stateless: all is derived from what stands.

A revision that never served is dropped at once when another is wanted. One that serves stays at
its replicas until the wanted one has all of its own and one of them is behind the Service. A wanted
revision that never serves within its deadline is taken back, or held, if an older one serves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kindling_operator.model.api import OnFailure, Rollout
from kindling_operator.model.plan import Revision, RevisionTarget, RolloutState
from kindling_operator.model.quantities import duration_seconds
from kindling_operator.plan.standing import Standing


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a revision may take to serve, and what then."""

    deadline: timedelta
    on_failure: OnFailure


@dataclass(frozen=True, slots=True)
class Step:
    """The replicas to have now, the wanted revision first.

    `kept` are revisions of which the memory alone stays. `overdue` is True if the wanted one has
    not served within its deadline; `look_again` is when that would become so.
    """

    targets: tuple[RevisionTarget, ...]
    kept: tuple[Revision, ...]
    state: RolloutState
    overdue: bool = False
    look_again: datetime | None = None


def policy_of(rollout: Rollout) -> Policy:
    """The policy in a spec."""
    return Policy(
        deadline=timedelta(seconds=duration_seconds(rollout.progress_deadline)),
        on_failure=rollout.on_failure,
    )


def next_step(
    wanted: Standing,
    others: tuple[Standing, ...],
    *,
    desired: int,
    policy: Policy,
    now: datetime,
) -> Step:
    """One step; `others` are the model's other stored revisions, the newest first."""
    serving = tuple(each for each in others if each.deployed and each.revision.served)
    overdue = is_overdue(wanted, desired, policy=policy, now=now)
    # 1. Nobody needs the older ones any more, or none of them serves: the wanted one stands alone.
    if is_complete(wanted, desired) or not serving:
        step = _step(wanted, (), others, desired=desired)
    # 2. It has failed while an older one serves: that one is wanted again.
    elif overdue and policy.on_failure is OnFailure.ROLLBACK:
        return _rolled_back(wanted, serving[0], others, desired=desired, policy=policy, now=now)
    # 3. Both stand until it has all its replicas and a place behind the Service.
    else:
        step = _step(wanted, serving, others, desired=desired)
    if overdue:
        return replace(step, overdue=True, state=RolloutState.HELD if serving else step.state)
    return replace(step, look_again=_deadline(wanted, desired, policy))


def is_complete(wanted: Standing, desired: int) -> bool:
    """Whether a revision has taken over: all replicas available, one of them behind the Service."""
    return desired == 0 or (wanted.available >= desired and wanted.routed)


def is_overdue(wanted: Standing, desired: int, *, policy: Policy, now: datetime) -> bool:
    """Whether a revision that never served has used up its time."""
    end = _deadline(wanted, desired, policy)
    return end is not None and now >= end


def all_steps(
    wanted: Standing,
    others: tuple[Standing, ...],
    *,
    desired: int,
    policy: Policy,
    now: datetime,
    settle: Callable[[Standing, int | None], Standing],
) -> tuple[Step, ...]:
    """The steps to the fixed point, where `settle` tells what becomes of a revision.

    It gets a standing and the replicas that the step gives it (None: no Deployment) and returns
    the standing at the next look. Every look is a deadline later than the one before.
    """
    steps: list[Step] = []
    while not steps or len(steps) < 2 or steps[-1] != steps[-2]:
        step = next_step(wanted, others, desired=desired, policy=policy, now=now)
        given = {target.revision.hash: target.replicas for target in step.targets}
        left = (*(target.revision for target in step.targets), *step.kept)
        stored = {revision.hash: revision for revision in left}
        wanted, *others_left = (
            settle(
                replace(each, revision=stored[each.revision.hash]), given.get(each.revision.hash)
            )
            for each in (wanted, *others)
            if each.revision.hash in stored
        )
        others = tuple(others_left)
        now += policy.deadline
        steps.append(replace(step, look_again=None))
    return tuple(steps[:-1])


def _step(
    wanted: Standing, beside: tuple[Standing, ...], others: tuple[Standing, ...], *, desired: int
) -> Step:
    """The wanted revision with all replicas, those beside it as they are, the rest as memory."""
    settled = is_complete(wanted, desired) or (wanted.revision.served and not beside)
    return Step(
        targets=(
            RevisionTarget(replace(wanted.revision, failed=False), desired),
            *(RevisionTarget(each.revision, each.replicas or 0) for each in beside),
        ),
        kept=_history(others, beside),
        state=RolloutState.STEADY if settled else RolloutState.ROLLING,
    )


def _rolled_back(
    failed: Standing,
    back: Standing,
    others: tuple[Standing, ...],
    *,
    desired: int,
    policy: Policy,
    now: datetime,
) -> Step:
    """The older revision is wanted; the failed one is remembered, so as not to be tried again."""
    left = tuple(each for each in others if each is not back)
    step = next_step(back, left, desired=desired, policy=policy, now=now)
    memory = replace(failed.revision, failed=True)
    return replace(step, kept=(memory, *step.kept), state=RolloutState.ROLLED_BACK)


def _history(others: tuple[Standing, ...], beside: tuple[Standing, ...]) -> tuple[Revision, ...]:
    """The one revision to remember: the last that served, which is the one still deployed."""
    served = [each for each in others if each.revision.served and each not in beside]
    last = next((each for each in served if each.deployed), served[0] if served else None)
    return () if last is None else (last.revision,)


def _deadline(wanted: Standing, desired: int, policy: Policy) -> datetime | None:
    """When a revision that never served is overdue; None while it is not on trial.

    The time runs from the creation of its Deployment, or from that of its first pod: a model may
    have been at zero replicas since. Without a Deployment it is on trial only if it was taken back
    already: then a longer deadline gives it another chance.
    """
    if desired == 0 or wanted.revision.served:
        return None
    if wanted.deployed_at is not None:
        return max(wanted.deployed_at, wanted.started or wanted.deployed_at) + policy.deadline
    created = wanted.revision.created
    return created + policy.deadline if wanted.revision.failed and created is not None else None
