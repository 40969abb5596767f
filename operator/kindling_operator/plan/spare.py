"""Room for one more replica: which of the model's own replicas would make it."""

from __future__ import annotations

from collections.abc import Iterable

from kindling_operator.model.objects import PodView
from kindling_operator.plan.fleet import Pool
from kindling_operator.plan.room import Demand, Room


def frees(room: Room, demand: Demand, pool: Pool, pods: Iterable[PodView]) -> frozenset[str]:
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
                able[revision] = room.place(demand, pool) is not None
    return frozenset(revision for revision, makes_room in able.items() if makes_room)
