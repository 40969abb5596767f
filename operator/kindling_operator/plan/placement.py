"""Models compete for GPUs: who comes first, and what the earlier ones leave over.

Priority (of the PriorityClass), then age, then name. A GPU counts for one model only: pods that
run hold theirs, and an earlier model's replicas that do not run yet have theirs set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from kindling_operator.model.api_placement import Placement
from kindling_operator.model.architecture import Device
from kindling_operator.model.objects import PodView
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import EnginePlan
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.choice import choose
from kindling_operator.plan.fleet import Fleet, Pool, fleet_of
from kindling_operator.plan.revision import stored_revisions
from kindling_operator.plan.rollout import is_overdue, policy_of
from kindling_operator.plan.room import Demand, Room, room_of
from kindling_operator.plan.standing import Standing, standings, stored_for
from kindling_operator.plan.subject import Subject, subject_of

_NEWEST = datetime.max.replace(tzinfo=UTC)


def models_in_order(snapshot: Snapshot) -> tuple[ParsedModel, ...]:
    """Every readable model that is wanted, first come first."""
    models = (
        model
        for model in snapshot.models.values()
        if isinstance(model, ParsedModel) and model.metadata.deletion is None
    )
    return tuple(sorted(models, key=lambda model: _place(snapshot, model)))


def room_for(snapshot: Snapshot, subject: Subject) -> Room:
    """The GPUs that a new revision of this model may take.

    Its pods that serve keep theirs: they leave only after the new revision serves. Its pods that
    never served are about to go.
    """
    key = subject.model.key
    served = {r.hash for r in stored_revisions(snapshot, subject.model) if r.served}
    return _room(snapshot, subject, lambda pod: pod.model == key and pod.revision not in served)


def room_without(snapshot: Snapshot, subject: Subject) -> Room:
    """The GPUs that there would be if this model did not run: for comparing plans."""
    key = subject.model.key
    return _room(snapshot, subject, lambda pod: pod.model == key)


def _room(snapshot: Snapshot, subject: Subject, leave_out: Callable[[PodView], bool]) -> Room:
    fleet = fleet_of(snapshot.nodes)
    room = room_of(fleet, snapshot.pods, used=snapshot.used, leave_out=leave_out)
    for other in models_in_order(snapshot):
        if other.key == subject.model.key:
            break
        room = _less(snapshot, other, room)
    return room


def _less(snapshot: Snapshot, model: ParsedModel, room: Room) -> Room:
    """The room less what an earlier model needs; one that cannot be decided on needs nothing.

    Its own pass fails in the same way and tells its owner: that is no reason to stop the others.
    """
    try:
        return _set_aside(snapshot, model, room)
    except Exception:
        return room


def _set_aside(snapshot: Snapshot, model: ParsedModel, room: Room) -> Room:
    """The room less what an earlier model's replicas will take that do not run yet."""
    subject = subject_of(model, snapshot.environment)
    if subject is None or Device.GPU not in subject.architecture.devices:
        return room
    standing = stored_for(model, standings(snapshot, model))
    if standing is not None:
        stored = standing.revision
        if stored.plan.gpu is None or _given_up(snapshot, model, standing):
            return room
        bound = sum(
            1 for pod in snapshot.pods_of(model.key) if pod.revision == stored.hash and pod.node
        )
        missing = max(0, model.spec.replicas - bound)
        return _keep_free(subject, stored.plan, room, times=missing)
    choice = choose(subject, snapshot.nodes, room, snapshot.claims)
    if choice.plan is None or choice.plan.gpu is None or choice.waiting is not None:
        return room
    return _keep_free(subject, choice.plan, room, times=model.spec.replicas)


def _keep_free(subject: Subject, plan: EnginePlan, room: Room, *, times: int) -> Room:
    """The room less so many replicas of a plan; those that find none are left out."""
    for pool, demand in demands(plan, room.fleet, subject.spec.placement):
        for _ in range(times):
            names = room.place(demand, pool)
            if names is None:
                break
            room = room.less(demand, names, of=subject.model.key)
            times -= 1
    return room


def demands(
    plan: EnginePlan, fleet: Fleet, placement: Placement | None
) -> Iterator[tuple[Pool, Demand]]:
    """What one replica of a plan asks for, on each class of GPU that its product has."""
    pod, gpu = plan.pod, plan.gpu
    if gpu is None:
        pool = fleet.usable(placement, gpu=False)
        yield pool, Demand(None, cpu_millis=pod.cpu_millis, memory=pod.memory)
        return
    for pool in fleet.pools(placement):
        if pool.gpu is not None and pool.gpu.product == gpu.product:
            yield (
                pool,
                Demand(
                    pool.gpu,
                    gpus_per_node=gpu.count,
                    nodes=gpu.nodes,
                    cpu_millis=pod.cpu_millis,
                    memory=pod.memory,
                    one_clique=gpu.one_clique,
                ),
            )


def _given_up(snapshot: Snapshot, model: ParsedModel, standing: Standing) -> bool:
    """Whether no pod will come soon: the cluster refuses them, or the revision's time is up."""
    policy = policy_of(model.spec.rollout)
    overdue = is_overdue(standing, model.spec.replicas, policy=policy, now=snapshot.now)
    return overdue or standing.refused


def _place(snapshot: Snapshot, model: ParsedModel) -> tuple[int, datetime, str, str]:
    placement = model.spec.placement
    name = placement.priority_class_name if placement is not None else None
    priority = snapshot.priorities.get(name, 0) if name is not None else 0
    return -priority, model.metadata.created or _NEWEST, *model.key
