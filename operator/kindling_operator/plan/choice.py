"""What a model would run if nothing of it were stored: refuse, wait, or a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.objects import ClaimView, NodeView
from kindling_operator.model.plan import EnginePlan, Verdict
from kindling_operator.plan.capabilities import either, supported_families
from kindling_operator.plan.checks import argument_is_planned, judge, weights_are_nowhere
from kindling_operator.plan.devices import gpu_class, selector_text, usable_nodes
from kindling_operator.plan.engine import engine_plan
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.room import Room
from kindling_operator.plan.search import (
    Option,
    Search,
    search,
)
from kindling_operator.plan.shortfall import claim_shortfall, cpu_shortfall, gpu_shortfall
from kindling_operator.plan.subject import Subject


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome: `accepted` judges the spec, `plan` is None if that refuses it.

    `waiting` says what is missing before a first pod makes sense; nothing is created until then.
    """

    accepted: Verdict
    plan: EnginePlan | None = None
    option: Option | None = None
    waiting: Verdict | None = None


def choose(
    subject: Subject, nodes: Iterable[NodeView], room: Room, claims: Iterable[ClaimView]
) -> Choice:
    """The best option that has room now, else the best option and what it waits for."""
    # 1. The spec alone.
    refused = judge(subject)
    if refused is not None:
        return Choice(refused)
    # 2. What fits at all, then the facts that no device can change.
    found = search(subject, nodes)
    refused = (
        weights_are_nowhere(subject) if found.options else _nothing_fits(subject, found, nodes)
    )
    if refused is not None:
        return Choice(refused)
    # 3. The first that has room.
    option = next((o for o in found.options if _has_room(o, room)), found.options[0])
    plan = engine_plan(subject, option, found)
    refused = argument_is_planned(subject, plan.argv)
    if refused is not None:
        return Choice(refused)
    # 4. What must exist before its first pod.
    waiting = claim_shortfall(subject.model.key.namespace, plan.weights, claims)
    if waiting is None and not _has_room(option, room):
        waiting = _no_room(subject, option, nodes, room)
    return Choice(accepted(plan), plan, option, waiting)


def _has_room(option: Option, room: Room) -> bool:
    if option.gpu is None:
        return bool(option.nodes)
    return any(room.free.get(node.name, 0) >= 1 for node in option.nodes)


def _no_room(subject: Subject, option: Option, nodes: Iterable[NodeView], room: Room) -> Verdict:
    if option.gpu is None:
        return cpu_shortfall(subject, option.sizing, nodes)
    return gpu_shortfall(
        subject.model.key,
        product=option.gpu.product,
        gpus=1,
        nodes=option.nodes,
        room=room,
        show_foreign=subject.environment.name_foreign_holders,
    )


def accepted(plan: EnginePlan) -> Verdict:
    """The verdict on a spec that has this plan."""
    if not plan.warning:
        return Verdict(ConditionType.ACCEPTED, Reason.SPEC_ACCEPTED, f"{plan.summary}.")
    return Verdict(
        ConditionType.ACCEPTED,
        Reason.UNVERIFIED,
        f"{plan.summary}: accepted as pinned, but unverified, {plan.warning}.",
    )


def _nothing_fits(subject: Subject, found: Search, nodes: Iterable[NodeView]) -> Verdict:
    """The refusal of the nearest option; without any option, why there is none."""
    if found.rejected:
        nearest = found.rejected[0]
        return refusal(nearest.reason, nearest.message)
    return refusal(Reason.NO_SUPPORTED_GPU, _no_gpu(subject, tuple(nodes)))


def _no_gpu(subject: Subject, nodes: tuple[NodeView, ...]) -> str:
    """What the model needs, and where the GPUs are that it cannot use."""
    usable = usable_nodes(nodes, subject.spec.placement, gpu=True)
    others = _gpus_text(node for node in nodes if node not in usable)
    silent = sum(1 for node in nodes if node.gpus and gpu_class(node) is None)
    wanted = supported_families(subject)
    parts = [
        f"the usable nodes have {has}"
        if (has := _gpus_text(usable))
        else "no usable node says that it has one",
        f"{others} are on nodes that are not ready, cordoned, tainted or not selected"
        if others
        else "",
        f"{silent} {'node lacks' if silent == 1 else 'nodes lack'} the labels of NVIDIA's GPU"
        " feature discovery"
        if silent
        else "",
    ]
    return (
        f"No GPU for {subject.entry.title}{f' (it needs {either(wanted)})' if wanted else ''}"
        f"{_limits_text(subject)}: {', '.join(part for part in parts if part)}; add a node or"
        " correct what keeps them out."
    )


def _gpus_text(nodes: Iterable[NodeView]) -> str:
    """GPUs by product: "8 x NVIDIA-L4 (sm89)"."""
    counts: Counter[str] = Counter()
    for node in nodes:
        found = gpu_class(node)
        if found is not None:
            counts[f"{found.product} ({found.capability})"] += node.gpus
    return ", ".join(f"{count} x {product}" for product, count in sorted(counts.items()))


def _limits_text(subject: Subject) -> str:
    """What the spec itself excludes."""
    placement = subject.spec.placement
    gpu = placement.gpu if placement is not None else None
    limits = [
        f"spec.placement.gpu.products {', '.join(gpu.products)}" if gpu and gpu.products else "",
        f"spec.placement.gpu.minMemory {gpu.min_memory}" if gpu and gpu.min_memory else "",
        f"spec.placement.nodeSelector {selector}" if (selector := selector_text(placement)) else "",
    ]
    given = [limit for limit in limits if limit]
    return f" within {' and '.join(given)}" if given else ""
