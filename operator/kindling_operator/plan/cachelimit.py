"""How much of its claim a model's downloads may take: no part of a plan, and no restart.

The pod that downloads reads the limit when it starts, from an object beside the plan, so that a
change of it holds for the next download and replaces nothing.
"""

from __future__ import annotations

from typing import Final

from kindling_operator.model.architecture import Checkpoint
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import EnginePlan, Verdict, WeightsMount
from kindling_operator.model.quantities import format_bytes, quantity_bytes
from kindling_operator.plan.memory import GIB
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.subject import Subject

_FIELD: Final = "spec.model.weights.cacheMaxBytes"


def cache_limit(subject: Subject, mount: WeightsMount) -> int | None:
    """Bytes that the claim may hold when this model downloads; None for all that it has room
    for, and where nothing is downloaded to a claim."""
    asked = subject.weights.cache_max_bytes
    if asked is None or not mount.cache_claim or mount.fetch is None:
        return None
    return quantity_bytes(asked)


def limit_problem(subject: Subject, plan: EnginePlan) -> Verdict | None:
    """Why the limit is refused, or None. What the installation sets is silent where it bounds
    nothing; what the user writes is not."""
    found = _bounds_nothing(subject, plan.weights)
    return _refused(found or _is_below_the_weights(subject, plan))


def _refused(message: str) -> Verdict | None:
    return refusal(Reason.INVALID_SPEC, message) if message else None


def _bounds_nothing(subject: Subject, mount: WeightsMount) -> str:
    own = subject.spec.model.weights
    if own is None or own.cache_max_bytes is None:
        return ""
    given = f"{_FIELD} is {own.cache_max_bytes}"
    if mount.fetch is None:
        return f"{given} and {mount.uri} is not downloaded: remove it."
    if not mount.cache_claim:
        return f"{given} and no claim keeps the download: set spec.model.weights.cacheClaim."
    return ""


def _is_below_the_weights(subject: Subject, plan: EnginePlan) -> str:
    limit, fetch = cache_limit(subject, plan.weights), plan.weights.fetch
    if limit is None or fetch is None or limit >= fetch.bytes:
        return ""
    own = subject.spec.model.weights
    chosen = own is not None and own.cache_max_bytes is not None
    given = f"{_FIELD} is {subject.weights.cache_max_bytes}"
    smaller = _smaller(subject, limit)
    return (
        f"{given}{'' if chosen else ' by the chart'} and the {plan.checkpoint} weights have"
        f" {format_bytes(fetch.bytes)}: set it to {-(-fetch.bytes // GIB)}Gi or more"
        + (f", or spec.model.checkpoint to {smaller.name.value}." if smaller else ".")
    )


def _smaller(subject: Subject, limit: int) -> Checkpoint | None:
    """The largest other checkpoint within the limit, where the user named neither one nor a URI."""
    if subject.weights.uri is not None:
        return None
    within = [each for each in subject.architecture.checkpoints if each.bytes <= limit]
    return max(within, key=lambda each: each.bytes, default=None)
