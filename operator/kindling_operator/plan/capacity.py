"""What the cluster has for a rollout, beside what the model itself holds."""

from __future__ import annotations

from kindling_operator.model.names import Key
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.placement import Placed
from kindling_operator.plan.standing import Standing
from kindling_operator.plan.succession import Capacity


def capacity_of(
    snapshot: Snapshot, key: Key, standing: tuple[Standing, ...], wanted: Standing, placed: Placed
) -> Capacity:
    """The capacity for the wanted revision of a model, from its turn in the sweep.

    The sweep may be older than the snapshot. Until there is one that saw the same pods of the
    model, one of them counts as leaving: nothing else may be decided on what is not so any more.
    """
    if placed.shortfall is None:
        return Capacity(placed.room_now, placed.room_later)
    stay = {each.revision.hash for each in standing if each.revision.served}
    stay.add(wanted.revision.hash)
    nodes = {node.name for node in snapshot.nodes}
    pods = [pod for pod in snapshot.pods_of(key) if pod.node in nodes and not pod.ended]
    going = sum(1 for pod in pods if pod.revision not in stay)
    unseen = frozenset(pod.uid for pod in pods) != placed.pods
    return Capacity(
        placed.room_now,
        placed.room_later,
        frees=placed.frees,
        leaving=sum(each.leaving for each in standing) + going + unseen,
        contested=any(
            pod.gpus and not pod.node and not pod.terminating and pod.model != key
            for pod in snapshot.pods
        ),
    )
