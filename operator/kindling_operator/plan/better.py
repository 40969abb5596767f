"""Is there a better plan than the frozen one: said, never taken without the user's word."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.layout import Layout
from kindling_operator.model.names import Key
from kindling_operator.model.plan import EnginePlan, Verdict

_SHUTDOWN = "--shutdown-timeout="

_Difference = Callable[[EnginePlan], str]


def layout_of(plan: EnginePlan) -> Layout:
    """How a plan spreads one replica."""
    sizes = plan.parallelism
    return Layout(
        sizes.tensor,
        sizes.pipeline,
        sizes.data,
        sizes.expert,
        plan.gpu.nodes if plan.gpu is not None else 1,
    )


def _gpus(plan: EnginePlan) -> str:
    if plan.gpu is None:
        return "0"
    count, nodes = plan.gpu.count * plan.gpu.nodes, plan.gpu.nodes
    return f"{count} in {nodes} node{'' if nodes == 1 else 's'}"


# What a person wants to hear of a change; the first columns that differ are told.
_NAMED: tuple[tuple[str, _Difference], ...] = (
    ("checkpoint", lambda plan: plan.checkpoint),
    ("GPU", lambda plan: plan.gpu.product if plan.gpu is not None else "none"),
    ("GPUs", _gpus),
    ("layout", lambda plan: layout_of(plan).name),
    ("drafts", lambda plan: str(plan.draft_tokens)),
    ("context", lambda plan: str(plan.context_length)),
    ("image", lambda plan: plan.image),
)


def better_plan(key: Key, frozen: EnginePlan, fresh: EnginePlan) -> Verdict | None:
    """What a plan made now would change, or None if it would be the same.

    The way of leaving (drain deadline), the memory of the GPUs and what the nodes say of it, the
    expected speed, explanations, doubts and the list of rejected options are no differences.
    """
    if _compared(frozen) == _compared(fresh):
        return None
    changes = [
        f"{name} {of(fresh)} instead of {of(frozen)}"
        for name, of in _NAMED
        if of(fresh) != of(frozen)
    ]
    what = ", ".join(changes) or "other engine arguments or resources"
    return Verdict(
        ConditionType.PLAN_CURRENT,
        Reason.BETTER_PLAN_AVAILABLE,
        f"A plan made now would have {what}: run `kindling replan im/{key.name} -n"
        f" {key.namespace}` to take it, which replaces the replicas.",
    )


def _compared(plan: EnginePlan) -> EnginePlan:
    argv = tuple(argument for argument in plan.argv if not argument.startswith(_SHUTDOWN))
    return structs.replace(
        plan,
        argv=argv,
        gpu=structs.replace(plan.gpu, memory=0, capability="", driver="", corrections=())
        if plan.gpu is not None
        else None,
        packages=(),
        pod=structs.replace(plan.pod, node_requirements=()),
        drain_seconds=0,
        speed=None,
        reasons={},
        why=(),
        warning="",
        rejected=(),
        rejected_total=0,
    )
