"""docs/reference/conditions.md: the table of reasons for people."""

from collections.abc import Iterator

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.conditions_table import REASONS

_MEANING = {
    ConditionType.ACCEPTED: "the spec can be planned",
    ConditionType.SCHEDULED: "every wanted replica has its GPUs",
    ConditionType.IDENTITY_READY: "the pod's own identity wrote and read the store",
    ConditionType.CACHE_READY: "the lower cache tiers are in use",
    ConditionType.PROGRESSING: "a change is under way",
    ConditionType.AVAILABLE: "at least one replica generates tokens through the endpoint",
    ConditionType.SCALING_ACTIVE: "the operator scales this object",
    ConditionType.PLAN_CURRENT: "running replicas match the plan and no better one waits",
    ConditionType.READY: "accepted, available and no failure pending",
}

_HEAD = """\
<!-- Written by `make generate` from operator/kindling_operator/model; do not edit. -->
# Conditions and reasons

`kubectl describe im NAME` shows the conditions of a model, and `kubectl get im -o wide` the reason
of `Ready`. True is always the good news, except that `Progressing` merely tells whether a change
is under way. `Ready` repeats the reason and the message of whatever keeps the model from being
ready. Each message is one sentence: what is wrong, the number, the fix.

"""


def conditions_page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| condition | true means |"
    yield "|---|---|"
    for condition in ConditionType:
        yield f"| [{condition}](#{condition.lower()}) | {_MEANING[condition]} |"
    for condition in ConditionType:
        yield ""
        yield f"## {condition}"
        yield ""
        yield "| status | reason | example of a message | what to do |"
        yield "|---|---|---|---|"
        for reason in Reason:
            row = REASONS[reason]
            if condition in row.on:
                status = row.on[condition]
                yield f"| {status} | `{reason}` | {row.example} | {row.remedy} |"
