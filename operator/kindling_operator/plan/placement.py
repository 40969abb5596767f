"""Models compete for GPUs: who comes first, and what the earlier ones leave over.

Priority (of the PriorityClass), then age, then name. A GPU counts for one model only: pods that
run hold theirs, and an earlier model's replicas that do not run yet have theirs set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from kindling_operator.model.architecture import Device
from kindling_operator.model.objects import NodeView, PodView
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.choice import choose
from kindling_operator.plan.devices import usable_nodes
from kindling_operator.plan.revision import stored_revisions
from kindling_operator.plan.rollout import is_overdue, policy_of
from kindling_operator.plan.room import Room, room_of
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
    room = room_of(snapshot.nodes, snapshot.pods, leave_out=leave_out)
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
        nodes = _nodes_with(snapshot, subject, stored.plan.gpu.product)
        return room.less(nodes, gpus=stored.plan.gpu.count, times=missing, of=model.key)
    choice = choose(subject, snapshot.nodes, room, snapshot.claims)
    if choice.option is None or choice.option.gpu is None or choice.waiting is not None:
        return room
    return room.less(choice.option.nodes, gpus=1, times=model.spec.replicas, of=model.key)


def _given_up(snapshot: Snapshot, model: ParsedModel, standing: Standing) -> bool:
    """Whether no pod will come soon: the cluster refuses them, or the revision's time is up."""
    policy = policy_of(model.spec.rollout)
    overdue = is_overdue(standing, model.spec.replicas, policy=policy, now=snapshot.now)
    return overdue or standing.refused


def _nodes_with(snapshot: Snapshot, subject: Subject, product: str) -> tuple[NodeView, ...]:
    usable = usable_nodes(snapshot.nodes, subject.spec.placement, gpu=True)
    return tuple(node for node in usable if node.gpu_product == product)


def _place(snapshot: Snapshot, model: ParsedModel) -> tuple[int, datetime, str, str]:
    placement = model.spec.placement
    name = placement.priority_class_name if placement is not None else None
    priority = snapshot.priorities.get(name, 0) if name is not None else 0
    return -priority, model.metadata.created or _NEWEST, *model.key
