"""What replicas measured, against what their plan says. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.plan import EnginePlan, Revision, Verdict
from kindling_operator.model.reports import Report
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import MemoryItem
from kindling_operator.plan.kv import pool_is_fixed
from kindling_operator.plan.listing import joined
from kindling_operator.plan.memory import with_measured
from kindling_operator.report.replicas import Replicas

_Check = Callable[[EnginePlan, Report], str | None]
"""What differs, in a clause that names both; None where nothing does."""

_DTYPE: Final = "--kv-cache-dtype="
_MOST: Final = 1.5
"""More than so many times the planned blocks were not estimated but miscounted."""
_ROUNDED: Final = 0.02
"""vLLM tells tokens by its whole requests of the longest context."""
_REACHES: Final = (("full", "full"), ("window", "window"), ("conv", "window"))
"""A short convolution is a window of few tokens for vLLM (inkling/nvidia/sconv_swa_attn.py)."""
_UNSET: Final = frozenset({"auto", "bfloat16"})
"""How vLLM tells of a KV cache in the model's own type."""


def mismatch(snapshot: Snapshot, revision: Revision, replicas: Replicas) -> Verdict | None:
    """PlanCurrent of a revision that runs otherwise than planned; the first pod by name tells."""
    for pod in replicas.ready:
        report = snapshot.reports.get(pod.uid)
        if report is None or pod.revision != revision.hash:
            continue
        for check in _CHECKS:
            differs = check(revision.plan, report)
            if differs is not None:
                return Verdict(
                    ConditionType.PLAN_CURRENT,
                    Reason.PLAN_MISMATCH,
                    f"vLLM in pod {pod.name} {differs}: report the difference together with"
                    " `kubectl get im -o yaml`.",
                )
    return None


def measured_items(
    items: tuple[MemoryItem, ...], snapshot: Snapshot, revision: Revision, replicas: Replicas
) -> tuple[MemoryItem, ...]:
    """The lines of one GPU with what a replica of the plan measured in their places."""
    found: dict[str, int] = {}
    for pod in replicas.ready:
        report = snapshot.reports.get(pod.uid)
        if report is not None and pod.revision == revision.hash:
            for item, size in report.memory:
                found[item] = max(size, found.get(item, 0))
    return with_measured(items, found)


def _kv_blocks(plan: EnginePlan, report: Report) -> str | None:
    """Where the plan does not fix the pool it leans to the small side, and somewhat more is no
    fault."""
    has, planned = report.kv_blocks, plan.kv.blocks
    more = not pool_is_fixed(plan) and has is not None and planned < has <= _MOST * planned
    if has is None or has == planned or more:
        return None
    return f"has {has} KV blocks and the plan says {planned}"


def _kv_tokens(plan: EnginePlan, report: Report) -> str | None:
    """Other tokens than so many blocks hold are blocks of another size."""
    has, blocks, planned = report.kv_tokens, report.kv_blocks, plan.kv.tokens
    if has is None or not blocks or not plan.kv.blocks:
        return None
    held = planned * blocks / plan.kv.blocks
    if has == planned or (blocks != plan.kv.blocks and abs(has - held) <= _ROUNDED * held):
        return None
    return f"has a KV cache of {has} tokens and the plan says {planned}"


def _cache_dtype(plan: EnginePlan, report: Report) -> str | None:
    given = (each.partition("=")[2] for each in plan.argv if each.startswith(_DTYPE))
    planned, has = next(given, "auto"), report.cache_dtype
    if has is None or has == planned or {has, planned} <= _UNSET:
        return None
    return f"keeps its KV cache as {has} and the plan says {planned}"


def _backends(plan: EnginePlan, report: Report) -> str | None:
    """vLLM names a group by its window, not as the plan does."""
    for group, backend in report.backends:
        alike = (e for e in plan.attention_backends if _reach(e.group) in (None, _reach(group)))
        planned = tuple(dict.fromkeys(each.backend for each in alike))
        if planned and backend not in planned:
            told = joined(planned, "and")
            return f"runs its layers of {group} with {backend} and the plan says {told}"
    return None


def _reach(group: str) -> str | None:
    """How far the layers of a group look, in the plan's names and in vLLM's, where it is sure."""
    return next((reach for word, reach in _REACHES if word in group), None)


def _corrections(plan: EnginePlan, report: Report) -> str | None:
    """Without it long contexts take many times as long as the plan expects."""
    for name, why in report.off:
        if plan.gpu is not None and name in plan.gpu.corrections:
            return f"runs without the correction {name} ({why}), on which the plan counts"
    return None


_CHECKS: Final[tuple[_Check, ...]] = (
    _kv_blocks,
    _kv_tokens,
    _cache_dtype,
    _backends,
    _corrections,
)
