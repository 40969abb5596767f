"""What a new replica waits for, said with the number, the best node and the fix."""

from __future__ import annotations

from collections.abc import Iterable

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ClaimView, NodeView
from kindling_operator.model.plan import Verdict, WeightsMount
from kindling_operator.model.quantities import format_bytes
from kindling_operator.plan.devices import selector_text, usable_nodes
from kindling_operator.plan.fleet import Pool
from kindling_operator.plan.room import Demand, Room
from kindling_operator.plan.sizing import Sizing
from kindling_operator.plan.subject import Subject


def claim_shortfall(
    namespace: str, weights: WeightsMount, claims: Iterable[ClaimView]
) -> Verdict | None:
    """A claim that does not exist, or is on its way out.

    One that is merely Pending is fine: a storage class may bind it to the first pod.
    """
    if not weights.claim:
        return None
    found = next((c for c in claims if (c.namespace, c.name) == (namespace, weights.claim)), None)
    name = f"PersistentVolumeClaim {namespace}/{weights.claim} ({weights.uri})"
    if found is None:
        return _waiting(
            Reason.CLAIM_NOT_BOUND,
            f"{name} does not exist: create it, or correct spec.model.weights.uri.",
        )
    if found.terminating or found.phase == "Lost":
        state = "is being deleted" if found.terminating else "has lost its volume"
        return _waiting(
            Reason.CLAIM_NOT_BOUND,
            f"{name} {state}: name another claim in spec.model.weights.uri.",
        )
    return None


def gpu_shortfall(
    key: Key,
    *,
    product: str,
    gpus: int,
    nodes: Iterable[NodeView],
    room: Room,
    show_foreign: bool,
) -> Verdict:
    """No node has `gpus` free GPUs of a product. Foreign holders are named only if allowed."""
    best = room.best(nodes)
    if best is None:
        return _waiting(
            Reason.INSUFFICIENT_GPU,
            f"Needs {gpus} x {product} in one node and no usable node has any: add a node.",
        )
    free = max(0, room.free.get(best.name, 0))
    shown = [
        f"{count} {verb} {holder}"
        for verb, holders in (("held by", room.held), ("reserved for", room.reserved))
        for holder, count in sorted(holders.get(best.name, {}).items())
        if show_foreign or holder.namespace == key.namespace
    ]
    held = f", {', '.join(shown)}" if shown else ""
    return _waiting(
        Reason.INSUFFICIENT_GPU,
        f"Needs {gpus} x {product} in one node; best node {best.name} has {free} of {best.gpus}"
        f" free{held}: free {gpus - free} or add a node.",
    )


def replica_shortfall(
    key: Key, demand: Demand, pool: Pool, room: Room, *, show_foreign: bool
) -> Verdict:
    """What the pool lacks for one replica on GPUs: nodes, GPUs of one, or its CPU and memory."""
    product = demand.gpu.product if demand.gpu is not None else ""
    gpus = demand.gpus_per_node
    if demand.nodes > 1:
        return _group_shortfall(product, demand, pool, room)
    best = room.best(pool.nodes)
    if best is None or room.left(best.name).gpus < gpus:
        return gpu_shortfall(
            key,
            product=product,
            gpus=gpus,
            nodes=pool.nodes,
            room=room,
            show_foreign=show_foreign,
        )
    enough = (node for node in pool.nodes if room.left(node.name).gpus >= gpus)
    best = max(enough, key=lambda node: (room.left(node.name).memory, node.name))
    left = room.left(best.name)
    return _waiting(
        Reason.INSUFFICIENT_RESOURCES,
        f"Needs {_cpus(demand.cpu_millis)} CPU and {format_bytes(demand.memory)} of memory beside"
        f" {gpus} x {product} in one node; best node {best.name} has"
        f" {_cpus(max(0, left.cpu_millis))} CPU and {format_bytes(max(0, left.memory))} free: free"
        " what is short or add a node.",
    )


def _group_shortfall(product: str, demand: Demand, pool: Pool, room: Room) -> Verdict:
    """Too few nodes have room at the same time for a replica of several pods."""
    need = demand.per_node
    free = [node for node in pool.nodes if not any(room.left(node.name).short_of(need))]
    where = " of one NVLink domain" if demand.one_clique else ""
    return _waiting(
        Reason.INSUFFICIENT_GPU,
        f"Needs {demand.nodes} nodes{where} with {demand.gpus_per_node} x {product},"
        f" {_cpus(demand.cpu_millis)} CPU and {format_bytes(demand.memory)} of memory free each;"
        f" {len(free)} of {len(pool.nodes)} have that: free"
        f" {max(1, demand.nodes - len(free))} more or add nodes.",
    )


def cpu_shortfall(subject: Subject, sizing: Sizing, nodes: Iterable[NodeView]) -> Verdict:
    """No node is large enough, or none is admitted."""
    placement = subject.spec.placement
    usable = usable_nodes(nodes, placement, gpu=False)
    if not usable:
        selector = selector_text(placement)
        which = f"spec.placement.nodeSelector {selector} and its tolerations" if selector else ""
        return _waiting(
            Reason.NO_MATCHING_NODE,
            f"No node matches {which}: label a node or correct the selector."
            if which
            else "No ready node admits the pods: add one, or add spec.placement.tolerations.",
        )
    best = max(usable, key=lambda node: (node.memory, node.cpu_millis, node.name))
    return _waiting(
        Reason.INSUFFICIENT_RESOURCES,
        f"Needs {_cpus(sizing.cpu_millis)} CPU and {format_bytes(sizing.memory)} of memory on an"
        f" amd64 node; the largest node, {best.name} ({best.architecture}), has"
        f" {_cpus(best.cpu_millis)} CPU and {format_bytes(best.memory)}: add a larger node.",
    )


def _cpus(millis: int) -> str:
    return f"{millis / 1000:g}"


def _waiting(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.SCHEDULED, reason, message)
