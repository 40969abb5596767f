"""What the planner says about conditions other than Accepted.

Where it says nothing, the condition follows from the pods, and the report stage reads them.
"""

from __future__ import annotations

from math import ceil

from kindling_operator.model.api import Rollout
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key, revision_object_name
from kindling_operator.model.plan import Revision, Verdict
from kindling_operator.plan.trial import policy_of


def waiting_verdicts(
    accepted: Verdict, waiting: Verdict | None, replicas: int
) -> tuple[Verdict, ...]:
    """A model of which nothing exists: refused, or waiting for what `waiting` says."""
    if waiting is None:
        return (accepted,)
    return (
        accepted,
        waiting,
        Verdict(
            ConditionType.PROGRESSING,
            Reason.CREATING,
            "Nothing is created yet, it starts by itself once what Scheduled names is there.",
        ),
        Verdict(
            ConditionType.AVAILABLE,
            Reason.NO_READY_REPLICA,
            f"0 of {replicas} replicas exist: see the condition Scheduled.",
        ),
    )


def overdue_verdict(key: Key, overdue: Revision, rollout: Rollout) -> Verdict:
    """A first revision that has not served in time; it is tried on, there is nothing older."""
    name = revision_object_name(key.name, overdue.hash)
    seconds = policy_of(rollout).deadline_of(overdue).total_seconds()
    allowed = rollout.progress_deadline or f"{ceil(seconds / 60)}m"
    return Verdict(
        ConditionType.PROGRESSING,
        Reason.DEADLINE_EXCEEDED,
        f"Revision {name} generated no token within {allowed}: see the reason of"
        " Available, then correct the spec or raise spec.rollout.progressDeadline.",
    )
