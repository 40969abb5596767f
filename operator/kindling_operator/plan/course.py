"""One step of a rollout as the cluster's room allows it, and what it waits for."""

from __future__ import annotations

from dataclasses import replace

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import revision_object_name
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import Decision, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.capacity import capacity_of
from kindling_operator.plan.listing import lowered
from kindling_operator.plan.placement import Placed
from kindling_operator.plan.rollout import Step, changes_nothing, next_step
from kindling_operator.plan.standing import Standing
from kindling_operator.plan.succession import PLENTY, Capacity, Waits
from kindling_operator.plan.trial import policy_of

_ROOM = {Reason.INSUFFICIENT_GPU, Reason.INSUFFICIENT_RESOURCES}


def step_towards(
    snapshot: Snapshot,
    model: ParsedModel,
    standing: tuple[Standing, ...],
    wanted: Standing,
    placed: Placed,
) -> Step:
    """The next step to the revision that the spec asks for.

    One that is not stored and cannot begin is not stored: what runs goes on, and `waits` tells.
    """
    capacity = capacity_of(snapshot, model.key, standing, wanted, placed)
    step = _step(snapshot, model, standing, wanted, capacity)
    runs = running(standing)
    if wanted in standing or runs is None or not step.waits or not changes_nothing(step, standing):
        return step
    return replace(step_of(snapshot, model, standing, runs), waits=step.waits)


def step_of(
    snapshot: Snapshot, model: ParsedModel, standing: tuple[Standing, ...], wanted: Standing
) -> Step:
    """The next step to a revision that stands already, whatever the spec asks for."""
    return _step(snapshot, model, standing, wanted, PLENTY)


def rollout_waits(
    model: ParsedModel, step: Step, missing: Verdict | None, mine: Placed
) -> Verdict | None:
    """What a change waits for: `missing` before its first replica, room for the next one later."""
    short = missing or mine.shortfall
    if short is None or (step.waits is None and missing is None):
        return None
    if short.reason not in _ROOM:
        return short
    key, desired = model.key, model.spec.replicas
    if step.waits is Waits.TURN:
        name = revision_object_name(key.name, step.targets[0].revision.hash)
        told = (
            f"Replicas of {name} take the places of older ones in turn, as there is no room for"
            f" all {desired} beside them: {lowered(short.message)}"
        )
        return Verdict(ConditionType.SCHEDULED, Reason.WAITING_FOR_CAPACITY, told)
    keeps = revision_object_name(key.name, step.targets[-1].revision.hash)
    told = f"The new revision waits and {keeps} keeps its replicas: {lowered(short.message)}"
    if mine.room_later > mine.room_now:
        told = (
            f"{told.rstrip('.')}, or accept a downtime by setting spec.replicas to 0 and back to"
            f" {desired}."
        )
    return Verdict(ConditionType.SCHEDULED, Reason.WAITING_FOR_CAPACITY, told)


def lacks_room(decision: Decision, mine: Placed) -> Verdict | None:
    """That not every replica has room, where nothing else says so: for people who plan ahead.

    In a cluster the scheduler answers for pods that exist.
    """
    short, desired = mine.shortfall, decision.desired_replicas
    said = decision.verdict(ConditionType.SCHEDULED)
    if short is None or said is not None or decision.refused is not None:
        return None
    if decision.current is None or mine.room_now >= desired:
        return None
    have = f"{mine.room_now} of {desired} replicas have room, and another does not"
    return Verdict(ConditionType.SCHEDULED, short.reason, f"{have}: {lowered(short.message)}")


def running(standing: tuple[Standing, ...]) -> Standing | None:
    """What keeps running although the spec asks for something else: a wrong edit loses nothing."""
    deployed = (each for each in standing if each.deployed)
    served = (each for each in standing if each.revision.served)
    return next(deployed, next(served, None))


def _step(
    snapshot: Snapshot,
    model: ParsedModel,
    standing: tuple[Standing, ...],
    wanted: Standing,
    capacity: Capacity,
) -> Step:
    return next_step(
        wanted,
        tuple(each for each in standing if each.revision.hash != wanted.revision.hash),
        desired=model.spec.replicas,
        policy=policy_of(model.spec.rollout),
        now=snapshot.now,
        capacity=capacity,
    )
