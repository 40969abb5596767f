"""The one form of a refusal."""

from __future__ import annotations

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.plan import Verdict


def refusal(reason: Reason, message: str) -> Verdict:
    """A verdict that the spec is not accepted."""
    return Verdict(ConditionType.ACCEPTED, reason, message)
