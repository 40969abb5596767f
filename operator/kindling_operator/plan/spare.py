"""Room for one more replica: which of the model's own replicas would make it, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Verdict
from kindling_operator.plan.fleet import Pool, pool_of
from kindling_operator.plan.room import Demand, Room
from kindling_operator.plan.shortfall import replica_shortfall

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
    if not demands:
        return Verdict(
            ConditionType.SCHEDULED,
            Reason.NO_MATCHING_NODE,
            "No node admits the pods any more: add one.",
        )
    need = demands[0][1]
    pool = pool_of((node for pool, _ in demands for node in pool.nodes), need.gpu)
    return replica_shortfall(key, need, pool, room, show_foreign=show_foreign)
