"""Is the wanted revision given up, and for which older one.

A revision is on trial from the moment that a replica of it has a node: waiting for GPUs is no
failure. It has failed when none of its replicas has generated a token for as long as the rollout
may take, or when one that did crashes again and again. Once it stands alone, only a crash loop that
began within that time counts: later the change of the spec is not what broke it, and an older
revision would not mend it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kindling_operator.model.api import OnFailure, Rollout
from kindling_operator.model.plan import Revision
from kindling_operator.model.quantities import duration_seconds
from kindling_operator.plan.standing import Standing

DEADLINE: Final = timedelta(minutes=45)
"""Where the user gives none and the plan's own start takes no longer."""
CRASH_LOOP: Final = 3
"""Restarts of an engine that has served: by then the kubelet waits 40 s between two of them."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a revision may take to serve, and what then; None leaves the time to its plan."""

    deadline: timedelta | None
    on_failure: OnFailure

    def deadline_of(self, revision: Revision) -> timedelta:
        """How long this revision may take: never less than its runtime gives the engine, and a
        download before it, unless the user wants it so."""
        if self.deadline is not None:
            return self.deadline
        fetch = revision.plan.weights.fetch
        seconds = revision.plan.startup_seconds + (fetch.seconds if fetch is not None else 0)
        return max(DEADLINE, timedelta(seconds=seconds))


@dataclass(frozen=True, slots=True)
class Trial:
    """`back` is the revision to go back to, None without one; `end` is when time alone decides."""

    failed: bool
    back: Standing | None = None
    end: datetime | None = None


def policy_of(rollout: Rollout) -> Policy:
    """The policy in a spec."""
    asked = rollout.progress_deadline
    deadline = timedelta(seconds=duration_seconds(asked)) if asked is not None else None
    return Policy(deadline, rollout.on_failure)


def trial_of(
    wanted: Standing,
    others: tuple[Standing, ...] = (),
    *,
    desired: int,
    policy: Policy,
    now: datetime,
) -> Trial:
    """How the wanted revision does; `others` are the model's other revisions, the newest first."""
    back = _to_go_back_to(others)
    if desired == 0:
        return Trial(failed=False)
    if _is_in_a_crash_loop(wanted, back, policy):
        return Trial(failed=True, back=back)
    end = _end(wanted, back, policy)
    if end is None or now < end:
        return Trial(failed=False, back=back, end=end)
    return Trial(failed=True, back=back)


def finds_no_node(standing: Standing, policy: Policy, now: datetime) -> bool:
    """Whether a first replica has been asked for so long that no room is kept for it any more.

    Its pods wait on, but the scheduler sees more than we do: others may use what they do not get.
    """
    if standing.revision.served or standing.placed or not standing.replicas:
        return False
    return standing.deployed_at is not None and now >= standing.deployed_at + policy.deadline_of(
        standing.revision
    )


def _to_go_back_to(others: tuple[Standing, ...]) -> Standing | None:
    """The newest that has served, one that is deployed before one that is only remembered."""
    served = [each for each in others if each.revision.served and not each.revision.failed]
    deployed = (each for each in served if each.deployed)
    return next(deployed, served[0] if served else None)


def _is_in_a_crash_loop(wanted: Standing, back: Standing | None, policy: Policy) -> bool:
    """Whether a revision that has served does not any more, with an older one to go back to."""
    if back is None or not wanted.revision.served or wanted.available:
        return False
    if wanted.crashes < CRASH_LOOP or wanted.trying_since is None or wanted.deployed_at is None:
        return False
    end = wanted.deployed_at + policy.deadline_of(wanted.revision)
    return back.deployed or wanted.trying_since < end


def _end(wanted: Standing, back: Standing | None, policy: Policy) -> datetime | None:
    """When time decides against it; None while it is not on trial.

    One that was taken back already stays so, but if it never served, a longer deadline gives it
    another chance.
    """
    revision = wanted.revision
    deadline = policy.deadline_of(revision)
    if revision.failed and revision.created is not None:
        return revision.created if revision.served else revision.created + deadline
    if wanted.available or wanted.trying_since is None or wanted.deployed_at is None:
        return None
    if revision.served and (back is None or not back.deployed):
        return None
    return max(wanted.deployed_at, wanted.trying_since) + deadline
