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
    """The capacity for the wanted revision of a model, from its turn in the sweep."""
    if placed.shortfall is None:
        return Capacity(placed.room_now, placed.room_later)
    stay = {each.revision.hash for each in standing if each.revision.served}
    stay.add(wanted.revision.hash)
    going = (pod for pod in snapshot.pods_of(key) if pod.node and pod.revision not in stay)
    return Capacity(
        placed.room_now,
        placed.room_later,
        frees=placed.frees,
        leaving=sum(each.leaving for each in standing) + sum(1 for _ in going),
        contested=any(
            pod.gpus and not pod.node and not pod.terminating and pod.model != key
            for pod in snapshot.pods
        ),
    )
