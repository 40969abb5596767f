"""Replicas that are groups of pods: which should exist, and which give their GPUs back.

A group is all or nothing. One is made only where all its pods have room, and one of which a part
holds GPUs while the rest finds no node is taken back after a while, so that others can use them. So
is one whose engines end again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import LEADER_WORKER_SET, group_object_name
from kindling_operator.model.objects import PodView
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import (
    EnginePlan,
    GroupPlan,
    Revision,
    RevisionTarget,
    Verdict,
)
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.causes import BUDGET, LONGEST, cause_of, is_spent, why_ended
from kindling_operator.plan.listing import lowered
from kindling_operator.plan.workloads import group_sets

HALF_GROUP: Final = timedelta(minutes=10)
"""How long a part of a group may hold GPUs while the rest has no node: a cluster autoscaler brings
a GPU node within that time (EKS, GKE and AKS: 3 to 8 minutes)."""
HOLD_OFF: Final = timedelta(minutes=10)
"""How long a group that was taken back stays away: its GPUs are for others to take."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The targets with their groups; `waiting` says why groups are missing, if any are, and
    `look_again` when time alone changes this."""

    targets: tuple[RevisionTarget, ...]
    waiting: Verdict | None = None
    look_again: datetime | None = None


def lacks_groups(snapshot: Snapshot, plan: EnginePlan) -> Verdict | None:
    """What a plan of several pods per replica waits for while the cluster has no such workload."""
    if plan.group is None or LEADER_WORKER_SET not in snapshot.absent:
        return None
    return Verdict(
        ConditionType.SCHEDULED,
        Reason.LEADER_WORKER_SET_MISSING,
        f"One replica spans {plan.group.size} nodes, which needs the LeaderWorkerSet API, and the"
        " cluster does not have it: install LeaderWorkerSet v0.8 or later.",
    )


def half_group_ends(pods: Iterable[PodView], group: GroupPlan) -> datetime | None:
    """When a group must have all its nodes; None if it has them, or holds none."""
    living = [pod for pod in pods if not pod.terminating]
    bound = [pod for pod in living if pod.node]
    if not bound or len(bound) >= group.size:
        return None
    unbound = [pod for pod in living if not pod.node]
    return max(pod.created for pod in unbound or bound) + HALF_GROUP


def with_groups(
    snapshot: Snapshot,
    model: ParsedModel,
    targets: Iterable[RevisionTarget],
    *,
    room: int | None,
    short: Verdict | None,
) -> Groups:
    """Choose the groups of each target, the wanted one first.

    `room` is how many replicas of that one run or have room now; None asks no such question.
    `short` is what the next one lacks.
    """
    first, *others = (
        _chosen(snapshot, model, target, room=room if number == 0 else None, short=short)
        for number, target in enumerate(targets)
    )
    times = [each.look_again for each in (first, *others) if each.look_again is not None]
    return Groups(
        targets=tuple(each.targets[0] for each in (first, *others)),
        waiting=first.waiting,
        look_again=min(times, default=None),
    )


def _chosen(
    snapshot: Snapshot,
    model: ParsedModel,
    target: RevisionTarget,
    *,
    room: int | None,
    short: Verdict | None,
) -> Groups:
    revision, group = target.revision, target.revision.plan.group
    if group is None:
        return Groups((target,))
    missing = lacks_groups(snapshot, revision.plan)
    if missing is not None:
        return Groups((target,), missing)
    # 1. Of those that exist, the ones that hold GPUs for nothing go.
    present = {
        number: _members(snapshot, model, child.ref.name)
        for number, child in group_sets(snapshot, model, revision).items()
    }
    ends = {number: half_group_ends(pods, group) for number, pods in present.items()}
    late = {number for number, end in ends.items() if end is not None and snapshot.now >= end}
    spent = {number: pods for number, pods in present.items() if is_spent(pods)}
    if late or spent:
        revision = _released(revision, tuple(spent.values()), snapshot.now)
    # 2. Of the rest, the least valuable go if fewer are wanted.
    staying = sorted(
        (number for number in present if number not in {*late, *spent}),
        key=lambda number: _value(snapshot, model, present[number], number),
    )[: target.replicas]
    # 3. New ones are made where all their pods have room, but not at once after one went.
    wanted = target.replicas - len(staying)
    again = _held_until(revision, snapshot.now)
    new = 0 if again else wanted if room is None else min(wanted, max(0, room - len(staying)))
    numbers = (*staying, *_free_numbers(snapshot, model, revision.hash, present, count=new))
    return Groups(
        (replace(target, revision=revision, groups=tuple(sorted(numbers))),),
        waiting=_failed(revision, group, again)
        or _waiting(target, group, new=new, wanted=wanted, again=again, short=short),
        look_again=_first(again, *(ends[number] for number in staying)),
    )


def _first(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _released(revision: Revision, spent: Sequence[tuple[PodView, ...]], now: datetime) -> Revision:
    """The revision, which remembers when groups went, and why if they had failed."""
    why = ""
    if spent:
        found = cause_of(spent[0])
        why = f"pod {found.name}, {why_ended(found)}"[:LONGEST]
    return replace(revision, released=now, why=why)


def _failed(revision: Revision, group: GroupPlan, again: datetime | None) -> Verdict | None:
    """Why a group is gone that failed again and again; None where none is."""
    if again is None or not revision.why:
        return None
    return Verdict(
        ConditionType.PROGRESSING,
        Reason.FAILED,
        f"A replica of {group.size} pods has failed, as its engines ended {BUDGET} times in a row"
        f" ({revision.why}), and gave its nodes back: correct what that names, or the spec; it is"
        f" tried again at {again:%H:%M} UTC.",
    )


def _held_until(revision: Revision, now: datetime) -> datetime | None:
    """Until when no group is made, because one was taken back; None once that is over."""
    if revision.released is None or now >= revision.released + HOLD_OFF:
        return None
    return revision.released + HOLD_OFF


def _members(snapshot: Snapshot, model: ParsedModel, name: str) -> tuple[PodView, ...]:
    return tuple(pod for pod in snapshot.pods_of(model.key) if pod.group == name)


def _value(
    snapshot: Snapshot, model: ParsedModel, pods: tuple[PodView, ...], number: int
) -> tuple[bool, int, int, int]:
    """Sorts the most valuable first: it serves, it is ready, it has nodes, it is old."""
    routed = set(snapshot.endpoints.get(model.key, ()))
    return (
        not any(pod.name in routed for pod in pods),
        -sum(pod.ready for pod in pods),
        -sum(bool(pod.node) for pod in pods),
        number,
    )


def _free_numbers(
    snapshot: Snapshot, model: ParsedModel, hash_: str, taken: Iterable[int], *, count: int
) -> tuple[int, ...]:
    """The lowest numbers that no group has, nor any pod of one that is still leaving."""
    known = {pod.group for pod in snapshot.pods_of(model.key)}
    leaving = {child.ref.name for child in snapshot.children.get(model.key, ())}
    used, number = set(taken), 0
    found: list[int] = []
    while len(found) < count:
        name = group_object_name(model.key.name, hash_, number)
        if number not in used and name not in known and name not in leaving:
            found.append(number)
        number += 1
    return tuple(found)


def _waiting(
    target: RevisionTarget,
    group: GroupPlan,
    *,
    new: int,
    wanted: int,
    again: datetime | None,
    short: Verdict | None,
) -> Verdict | None:
    """Why fewer groups are made than wanted."""
    if new == wanted:
        return None
    gpu, have = target.revision.plan.gpu, target.replicas - wanted + new
    each = f"{gpu.count} x {gpu.product} free each" if gpu is not None else "room"
    near = " in one NVLink domain" if gpu is not None and gpu.one_clique else ""
    needs = f"needs {group.size} nodes with {each}{near}"
    if again is not None:
        told = (
            f"A replica {needs} and found only a part of them within"
            f" {HALF_GROUP // timedelta(minutes=1)} minutes, so it gave those back: free the rest"
            f" or add nodes, it is tried again at {again:%H:%M} UTC."
        )
        return Verdict(ConditionType.SCHEDULED, Reason.INSUFFICIENT_GPU, told)
    lacks = lowered(short.message) if short is not None else f"{needs}: free them or add nodes."
    told = (
        f"{have} of {target.replicas} replicas have room, and another does not:"
        f" {lacks.rstrip('.')}, or lower spec.replicas."
    )
    reason = short.reason if short is not None else Reason.INSUFFICIENT_GPU
    return Verdict(ConditionType.SCHEDULED, reason, told)
