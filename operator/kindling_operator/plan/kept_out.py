"""GPUs of nodes that a model's pods may not go to: how many for which reason, and the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kindling_operator.model.api_placement import Placement, Toleration
from kindling_operator.model.objects import NodeView, Taint
from kindling_operator.plan.devices import GPU_TOLERATION, GpuClass, repelling
from kindling_operator.plan.fleet import Fleet
from kindling_operator.plan.listing import few, joined

_OF_THE_CLUSTER = "kubernetes.io"
"""Ends the domain of taints that Kubernetes sets and takes off by itself (docs: Taints and
Tolerations, taint based evictions)."""


def kept_out(
    fleet: Fleet,
    placement: Placement | None,
    of_use: Callable[[GpuClass], bool],
    *,
    selected: bool = False,
) -> tuple[str, ...]:
    """One part of a sentence for each reason, that which keeps most GPUs first.

    Only GPUs `of_use` count, with `selected` only those of nodes that spec.placement.nodeSelector
    matches.
    """
    tolerations = (*(placement.tolerations if placement is not None else ()), GPU_TOLERATION)
    usable = fleet.usable(placement, gpu=True)
    gpus: dict[str, Counter[str]] = {}
    ways: dict[str, str] = {}
    for node in fleet.nodes:
        found = fleet.classes[node.name]
        if selected and not _is_selected(node, placement):
            continue
        if found is not None and node.name not in usable.names and of_use(found):
            where, way_out = _reason(node, placement, tolerations)
            gpus.setdefault(where, Counter())[f"{found.product} ({found.capability})"] += node.gpus
            ways.setdefault(where, way_out)
    order = sorted(gpus, key=lambda where: (-gpus[where].total(), where))
    return tuple(f"{counted(gpus[where])} {where} ({ways[where]})" for where in order)


def counted(gpus: Counter[str]) -> str:
    """GPUs by product: "8 x NVIDIA-L4 (sm89)"; "" for none."""
    return few([f"{count} x {product}" for product, count in sorted(gpus.items())])


def _reason(
    node: NodeView, placement: Placement | None, tolerations: tuple[Toleration, ...]
) -> tuple[str, str]:
    """The first thing that keeps pods off a node, and how to mend it."""
    look = f"kubectl describe node {node.name}"
    if not _is_selected(node, placement):
        return "not matched by spec.placement.nodeSelector", "correct it, or label the nodes"
    if not node.ready:
        return "on nodes that are not ready", look
    if node.unschedulable:
        return "on cordoned nodes", f"kubectl uncordon {node.name}"
    taints = tuple(repelling(node.taints, tolerations))
    where = f"on nodes tainted {joined([_text(taint) for taint in taints], 'and')}"
    if any(taint.key.partition("/")[0].endswith(_OF_THE_CLUSTER) for taint in taints):
        return where, look
    return where, "add a toleration to spec.placement.tolerations"


def _is_selected(node: NodeView, placement: Placement | None) -> bool:
    selector = placement.node_selector if placement is not None else {}
    return all(node.labels.get(key) == value for key, value in selector.items())


def _text(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
