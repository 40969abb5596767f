"""Room for one more replica: which of the model's own replicas would make it, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Verdict
from kindling_operator.model.quantities import format_bytes
from kindling_operator.plan.fleet import Pool
from kindling_operator.plan.room import Demand, Room
from kindling_operator.plan.shortfall import gpu_shortfall

Demands = Sequence[tuple[Pool, Demand]]
"""What one replica asks for, on each kind of node that would do."""


def frees(room: Room, demands: Demands, pods: Iterable[PodView]) -> frozenset[str]:
    """Revisions of these pods of which every single replica makes room for one by leaving.

    Every one, because nobody can tell which pod a workload that shrinks takes away.
    """
    replicas: dict[tuple[str, str], list[PodView]] = {}
    for pod in pods:
        replicas.setdefault((pod.revision, pod.group or pod.name), []).append(pod)
    able: dict[str, bool] = {}
    for (revision, _), members in sorted(replicas.items()):
        if able.setdefault(revision, True):
            with room.without(members):
                able[revision] = any(room.place(need, pool) for pool, need in demands)
    return frozenset(revision for revision, makes_room in able.items() if makes_room)


def shortfall(key: Key, demands: Demands, room: Room, *, show_foreign: bool) -> Verdict:
    """What the nearest node lacks for one more replica."""
    nodes = [node for pool, _ in demands for node in pool.nodes]
    best = room.best(nodes)
    need = demands[0][1] if demands else Demand(None)
    if need.gpu is not None and (best is None or room.left(best.name).gpus < need.gpus_per_node):
        return gpu_shortfall(
            key,
            product=need.gpu.product,
            gpus=need.gpus_per_node,
            nodes=nodes,
            room=room,
            show_foreign=show_foreign,
        )
    roomiest = max(nodes, key=lambda n: (room.left(n.name).memory, n.name), default=None)
    if roomiest is None:
        return _waiting(Reason.NO_MATCHING_NODE, "No node admits the pods any more: add one.")
    left = room.left(roomiest.name)
    return _waiting(
        Reason.INSUFFICIENT_RESOURCES,
        f"Needs {need.cpu_millis / 1000:g} CPU and {format_bytes(need.memory)} of memory in one"
        f" node; best node {roomiest.name} has {max(0, left.cpu_millis) / 1000:g} CPU and"
        f" {format_bytes(max(0, left.memory))} free: free what is short or add a node.",
    )


def _waiting(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.SCHEDULED, reason, message)
