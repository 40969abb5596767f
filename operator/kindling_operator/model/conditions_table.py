"""The table of reasons: each with the conditions it belongs to, an example, and what to do.

docs/reference/conditions.md and the tests of messages are made from it.
"""

from collections.abc import Mapping
from typing import Final

from kindling_operator.model import conditions_planning, conditions_serving
from kindling_operator.model.conditions import ConditionStatus, ConditionType, Reason, ReasonRow

REASONS: Final[Mapping[Reason, ReasonRow]] = {
    **conditions_planning.ROWS,
    **conditions_serving.ROWS,
}


def status_of(reason: Reason, condition: ConditionType) -> ConditionStatus:
    """The status that `reason` gives to `condition`; raises KeyError if it cannot stand there.

    Ready has the status of its cause: True for Serving, else what the reason says elsewhere, but
    never True.
    """
    on = REASONS[reason].on
    if condition is not ConditionType.READY or condition in on:
        return on[condition]
    causes = set(on.values()) - {ConditionStatus.TRUE}
    return ConditionStatus.FALSE if ConditionStatus.FALSE in causes else ConditionStatus.UNKNOWN
