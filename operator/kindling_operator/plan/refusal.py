"""The one form of a refusal: of a spec, and of an option among others."""

from __future__ import annotations

from kindling_operator.model.conditions import ConditionType, Reason, fit_message
from kindling_operator.model.plan import Verdict
from kindling_operator.model.status import MAX_LINE, RejectedOption


def refusal(reason: Reason, message: str) -> Verdict:
    """A verdict that the spec is not accepted."""
    return Verdict(ConditionType.ACCEPTED, reason, message)


def rejected(option: str, reason: str, message: str) -> RejectedOption:
    """An option that is not taken, within what status holds: names in it may be of any length."""
    return RejectedOption(option=option[:MAX_LINE], reason=reason, message=fit_message(message))
