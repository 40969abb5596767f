"""The status of a model that this operator cannot handle: what is known to be good, and why. Pure.

For a bug of the operator, or a status that the API server refuses: whoever applied the spec must
read of it where they look.
"""

from datetime import datetime
from typing import Any

import msgspec

from kindling_operator.model.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    new_condition,
    set_condition,
)
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Verdict
from kindling_operator.model.status import stored_conditions

_QUOTED_CHARACTERS = 400
"""Of a message that somebody else wrote; an exception may repeat a whole object."""


def broken(error: Exception) -> Verdict:
    """The operator itself failed on a spec."""
    told = " ".join(f"{type(error).__name__}: {error}".split())[:_QUOTED_CHARACTERS]
    return _invalid(
        f"This operator cannot handle the spec ({told}): change the field that this concerns, or"
        " report it with the operator's log."
    )


def unwritable(error: Exception) -> Verdict:
    """The API server refused the status that a spec leads to."""
    told = " ".join(str(error).split())[:_QUOTED_CHARACTERS]
    return _invalid(
        f"The API server refuses the status of this spec ({told}): change the field that this"
        " concerns, or apply the CRD of this operator's version."
    )


def fallback(
    model: ParsedModel | Invalid, verdict: Verdict, *, now: datetime, kept: bool = True
) -> dict[str, Any]:
    """The status as JSON values: Accepted and Ready say what `verdict` says.

    The rest stays as it is stored, so that what serves keeps its endpoint; it is left out where
    `kept` is off, as the API server may refuse just that.
    """
    stored = dict(model.status) if kept else {}
    conditions = stored_conditions(stored)
    for kind in (ConditionType.ACCEPTED, ConditionType.READY):
        new = new_condition(
            kind,
            ConditionStatus.FALSE,
            reason=verdict.reason,
            message=verdict.message,
            generation=model.metadata.generation,
            now=now,
        )
        conditions = set_condition(conditions, new)
    return {
        **stored,
        "observedGeneration": model.metadata.generation,
        "conditions": [msgspec.to_builtins(each) for each in conditions],
    }


def _invalid(message: str) -> Verdict:
    return Verdict(ConditionType.ACCEPTED, Reason.INVALID_SPEC, message)
