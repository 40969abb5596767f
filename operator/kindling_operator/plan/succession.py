"""How many replicas of each older revision stay while the wanted one comes. Pure.

With room for all new replicas beside the old ones nobody leaves before the end. Without it they
take turns: an old replica leaves for a new one, as long as another keeps serving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kindling_operator.plan.standing import Standing


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the cluster has for the wanted revision.

    `now` of its replicas run or have room beside everything that stands; `later` would if the
    model's other revisions were gone. `frees` are the hashes of those of which every single replica
    makes room for a new one by leaving. `leaving` replicas of the model are on their way out and
    hold their GPUs until then. `contested` tells that pods of others wait for GPUs.
    """

    now: int
    later: int
    frees: frozenset[str] = frozenset()
    leaving: int = 0
    contested: bool = False


PLENTY = Capacity(now=1 << 30, later=1 << 30)
"""Room for everything: for what does not compete with the model's own replicas."""


class Waits(StrEnum):
    """What new replicas without room wait for."""

    TURN = "Turn"
    """Old replicas leave one by one and make room."""
    CAPACITY = "Capacity"
    """No old one may leave, or none makes room: it needs GPUs of others, or a downtime."""


@dataclass(frozen=True, slots=True)
class Succession:
    """Replicas by hash of each older revision, and those of the wanted one."""

    older: Mapping[str, int]
    wanted: int
    waits: Waits | None = None


def succession(
    wanted: Standing, older: tuple[Standing, ...], *, desired: int, capacity: Capacity
) -> Succession:
    """The next step; `older` serve or did, the newest first."""
    raised = min(desired, max(wanted.replicas or 0, capacity.now))
    present = {each.revision.hash: each.replicas or 0 for each in older}
    # 1. A spare for each: the old ones stay until all the new ones serve.
    if capacity.now >= desired:
        return Succession(present, raised)
    # 2. Old ones that serve nobody leave first, then those that new ones have made up for.
    left = _without_idle(older, present) if capacity.later > capacity.now else dict(present)
    _without_surplus(wanted, older, left, desired=desired)
    # 3. While something moves, nobody else leaves.
    arriving = wanted.placed > wanted.serving or capacity.now > wanted.placed
    if left != present or capacity.leaving or arriving:
        return Succession(left, raised, Waits.TURN)
    # 4. One more, if another keeps serving.
    victim = _victim(wanted, older, left, desired=desired, capacity=capacity)
    if victim is None:
        return Succession(left, raised, Waits.CAPACITY)
    left[victim.revision.hash] -= 1
    return Succession(left, raised, Waits.TURN)


def _without_idle(older: tuple[Standing, ...], present: Mapping[str, int]) -> dict[str, int]:
    """Without the replicas that are not ready: a workload that shrinks removes these first."""
    return {each.revision.hash: min(present[each.revision.hash], each.available) for each in older}


def _without_surplus(
    wanted: Standing, older: tuple[Standing, ...], left: dict[str, int], *, desired: int
) -> None:
    """Take away what is not needed for `desired` replicas that serve, of the oldest first."""
    surplus = sum(left.values()) + wanted.serving - desired
    for each in reversed(older):
        if surplus > 0 and each.settled:
            taken = min(surplus, left[each.revision.hash])
            left[each.revision.hash] -= taken
            surplus -= taken


def _victim(
    wanted: Standing,
    older: tuple[Standing, ...],
    left: Mapping[str, int],
    *,
    desired: int,
    capacity: Capacity,
) -> Standing | None:
    """The revision that gives a replica up, the oldest first; None if none may.

    Below the desired number a replica has left and no new one came: others were faster. While pods
    of theirs wait, the next would go the same way.
    """
    serving = wanted.serving + sum(each.routed for each in older)
    lost = sum(left.values()) + wanted.serving < desired
    if serving < 2 or (lost and capacity.contested):
        return None
    able = (each for each in reversed(older) if left[each.revision.hash])
    return next((each for each in able if each.revision.hash in capacity.frees), None)
