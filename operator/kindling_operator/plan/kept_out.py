"""GPUs of nodes that a model's pods may not go to: how many for which reason, and the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kindling_operator.model.api_placement import Placement, Toleration
from kindling_operator.model.objects import Taint
from kindling_operator.plan.devices import GPU_TOLERATION, GpuClass, repelling
from kindling_operator.plan.fleet import Block, Fleet, Selector, selector_of
from kindling_operator.plan.listing import few, joined

_OF_THE_CLUSTER = "kubernetes.io"
"""Ends the domain of taints that Kubernetes sets and takes off by itself (docs: Taints and
Tolerations, taint based evictions)."""
_UNMATCHED = "not matched by spec.placement.nodeSelector"


def kept_out(
    fleet: Fleet,
    placement: Placement | None,
    of_use: Callable[[GpuClass], bool],
    *,
    selected: bool = False,
) -> tuple[str, ...]:
    """One part of a sentence for each reason, that which keeps most GPUs first.

    Only GPUs `of_use` count, with `selected` only those of nodes that spec.placement.nodeSelector
    matches. What is `of_use` is asked once for each class.
    """
    useful = frozenset(filter(of_use, {block.gpu for block in fleet.blocks(())}))
    selector = selector_of(placement)
    tolerations = placement.tolerations if placement is not None else ()
    # Models that differ in something else share the answer.
    return fleet.answer(
        ("kept out", useful, selector, tolerations, selected),
        lambda: _kept_out(fleet, selector, tolerations, useful, selected=selected),
    )


def _kept_out(
    fleet: Fleet,
    selector: Selector,
    tolerations: tuple[Toleration, ...],
    useful: frozenset[GpuClass],
    *,
    selected: bool,
) -> tuple[str, ...]:
    gpus: dict[str, Counter[str]] = {}
    ways: dict[str, str] = {}
    # The way out names the first node of all that share the reason.
    for block in sorted(fleet.blocks(selector), key=lambda block: block.first):
        reason = _reason(block, (*tolerations, GPU_TOLERATION)) if block.gpu in useful else None
        if reason is not None:
            where, way_out = reason
            gpus.setdefault(where, Counter())[_title(block.gpu)] += block.gpus
            ways.setdefault(where, way_out)
    if not selected and (others := _unmatched(fleet, selector, useful)):
        gpus[_UNMATCHED], ways[_UNMATCHED] = others, "correct it, or label the nodes"
    order = sorted(gpus, key=lambda where: (-gpus[where].total(), where))
    return tuple(f"{counted(gpus[where])} {where} ({ways[where]})" for where in order)


def _unmatched(fleet: Fleet, selector: Selector, useful: frozenset[GpuClass]) -> Counter[str]:
    """GPUs by product of the nodes that lack these labels: all but those that have them."""
    found: Counter[str] = Counter()
    for blocks, sign in ((fleet.blocks(()), 1), (fleet.blocks(selector), -1)):
        for block in blocks:
            if block.gpu in useful:
                found[_title(block.gpu)] += sign * block.gpus
    return +found


def counted(gpus: Counter[str]) -> str:
    """GPUs by product: "8 x NVIDIA-L4 (sm89)"; "" for none."""
    return few([f"{count} x {product}" for product, count in sorted(gpus.items())])


def _reason(block: Block, tolerations: tuple[Toleration, ...]) -> tuple[str, str] | None:
    """The first thing that keeps pods off nodes that the selector matches, and how to mend it;
    None if nothing does."""
    look = f"kubectl describe node {block.first}"
    if not block.ready:
        return "on nodes that are not ready", look
    if block.cordoned:
        return "on cordoned nodes", f"kubectl uncordon {block.first}"
    taints = tuple(repelling(block.taints, tolerations))
    if not taints:
        return None
    where = f"on nodes tainted {joined([_text(taint) for taint in taints], 'and')}"
    if any(taint.key.partition("/")[0].endswith(_OF_THE_CLUSTER) for taint in taints):
        return where, look
    return where, "add a toleration to spec.placement.tolerations"


def _title(gpu: GpuClass) -> str:
    return f"{gpu.product} ({gpu.capability})"


def _text(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
