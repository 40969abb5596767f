"""All models of the cluster, placed in one sweep: who comes first, and what is left for the next.

Priority (of the PriorityClass), then age, then name. A GPU counts for one model only: pods that
run hold theirs, and room for an earlier model's replicas that do not run yet is kept free. A model
that finds no room keeps none: what passes it by is named in its message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kindling_operator.model.names import Key
from kindling_operator.model.objects import PodView
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import EnginePlan, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.checks import unknown_model
from kindling_operator.plan.choice import Choice, choose
from kindling_operator.plan.fleet import Fleet, Pool, fleet_of
from kindling_operator.plan.kinds import asked
from kindling_operator.plan.revision import wanted_hash
from kindling_operator.plan.room import Demand, Room, room_of
from kindling_operator.plan.shortfall import passed_by, replica_shortfall
from kindling_operator.plan.spare import frees
from kindling_operator.plan.standing import Standing, standings, stored_for
from kindling_operator.plan.subject import Subject, subject_of
from kindling_operator.plan.trial import finds_no_node, policy_of, trial_of

_NEWEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Placed:
    """One model at its turn.

    `choice` is what would be chosen for it now: for a new revision its pods that serve keep their
    room; to compare with a frozen plan, as if the model did not run. `room_now` tells how many
    replicas of the wanted revision run or have room beside everything that stands, `room_later` how
    many if the pods of its other revisions were gone. `nodes` is where room is kept for those that
    do not run yet, one entry per replica.

    Where `choice` waits for room that its own pods have, `instead` is what would be chosen without
    them, and the room is told of that. `shortfall` is what the next replica without room lacks,
    `frees` are the revisions of which every replica would make that room by leaving, and `pods` the
    uids of the model's pods that had a node then.
    """

    choice: Choice
    room_now: int = 0
    room_later: int = 0
    nodes: tuple[tuple[str, ...], ...] = ()
    instead: Choice | None = None
    shortfall: Verdict | None = None
    frees: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()


class Placements:
    """The outcome of one sweep, by model."""

    def __init__(self, found: Mapping[Key, Placed | Exception]) -> None:
        self._found = found

    def __contains__(self, key: Key) -> bool:
        return key in self._found

    def get(self, key: Key) -> Placed | Exception | None:
        """One model's, whatever came of its turn."""
        return self._found.get(key)

    def keeping(self, old: Placements) -> Placements:
        """The same, with the old objects where they are equal."""
        return Placements(
            {
                key: before if before is not None and before == found else found
                for key, found in self._found.items()
                for before in (old.get(key),)
            }
        )

    def changed(self, old: Placements) -> frozenset[Key]:
        """The models that have another place than they had."""
        return frozenset(key for key, found in self._found.items() if found is not old.get(key))

    def of(self, key: Key) -> Placed:
        """One model's; raises what its turn raised, `KeyError` for one that had no turn."""
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found


def placements(snapshot: Snapshot, *, fleet: Fleet | None = None) -> Placements:
    """Every readable model in order.

    `fleet` is that of the snapshot's nodes, None to make it. Models that are being deleted come
    last and keep nothing free.
    """
    room = room_of(
        fleet or fleet_of(snapshot.nodes),
        snapshot.pods,
        used=snapshot.used,
        device_holds=snapshot.device_holds,
    )
    found: dict[Key, Placed | Exception] = {}
    for model in (*models_in_order(snapshot), *_leaving(snapshot)):
        # A model that cannot be decided on fails in its own pass: no reason to stop the others.
        try:
            found[model.key] = _turn(snapshot, model, room)
        except Exception as error:
            found[model.key] = error
    return Placements(_told_who_passes(snapshot, found))


def _told_who_passes(
    snapshot: Snapshot, found: Mapping[Key, Placed | Exception]
) -> Mapping[Key, Placed | Exception]:
    """The same, where a model that waits for GPUs is told who behind it gets such.

    A model that waits keeps nothing free: on a busy cluster smaller ones could pass it for ever.
    """
    behind: dict[str, list[Key]] = {}
    told: dict[Key, Placed | Exception] = {}
    show = snapshot.environment.name_foreign_holders
    for key, placed in reversed(tuple(found.items())):
        told[key] = placed
        if isinstance(placed, Exception) or placed.choice.plan is None:
            continue
        gpu = placed.choice.plan.gpu
        passing = sorted(behind.get(gpu.product, ())) if gpu is not None else []
        waiting, short = (
            passed_by(verdict, passing, key=key, show_foreign=show) if verdict else None
            for verdict in (placed.choice.waiting, placed.shortfall)
        )
        if (waiting, short) != (placed.choice.waiting, placed.shortfall):
            choice = replace(placed.choice, waiting=waiting)
            told[key] = replace(placed, choice=choice, shortfall=short)
        if gpu is not None and placed.nodes:
            behind.setdefault(gpu.product, []).append(key)
    return told


def models_in_order(snapshot: Snapshot) -> tuple[ParsedModel, ...]:
    """Every readable model that is wanted, first come first."""
    models = (
        model
        for model in snapshot.models.values()
        if isinstance(model, ParsedModel) and model.metadata.deletion is None
    )
    return tuple(sorted(models, key=lambda model: _place(snapshot, model)))


def _leaving(snapshot: Snapshot) -> tuple[ParsedModel, ...]:
    """The readable models that are being deleted."""
    return tuple(
        model
        for model in snapshot.models.values()
        if isinstance(model, ParsedModel) and model.metadata.deletion is not None
    )


def _turn(snapshot: Snapshot, model: ParsedModel, room: Room) -> Placed:
    """What one model gets; the room is less what is kept free for it afterwards."""
    subject = subject_of(model, snapshot.environment)
    if subject is None:
        known = tuple(sorted(snapshot.environment.catalog))
        return Placed(Choice(unknown_model(model.spec.model.name.value, known)))
    standing = standings(snapshot, model)
    frozen = stored_for(model, standing)
    pods = tuple(pod for pod in snapshot.pods_of(model.key) if room.has(pod))
    stay = {each.revision.hash for each in standing if frozen is None and each.revision.served}
    with room.without(pod for pod in pods if pod.revision not in stay):
        choice = choose(subject, room, snapshot.claims)
    instead = None
    if frozen is None and choice.waiting is not None and choice.plan is not None and pods:
        with room.without(pods):
            instead = choose(subject, room, snapshot.claims)
    best = instead or choice
    plan = frozen.revision.plan if frozen is not None else best.plan
    waits = frozen is None and best.waiting is not None
    leaves = model.metadata.deletion is not None
    given_up = frozen is not None and _given_up(snapshot, model, frozen)
    if plan is None or waits or leaves or given_up:
        return Placed(choice)
    return replace(_kept(subject, plan, room, choice=choice, pods=pods), instead=instead)


def _kept(
    subject: Subject, plan: EnginePlan, room: Room, *, choice: Choice, pods: tuple[PodView, ...]
) -> Placed:
    """Keep room free for the replicas that do not run yet, and tell how many have it."""
    wanted, key = wanted_hash(subject.model) if pods else "", subject.model.key
    others = tuple(pod for pod in pods if pod.revision != wanted)
    bound = len(pods) - len(others)
    running, started = divmod(bound, plan.gpu.nodes if plan.gpu is not None else 1)
    missing = subject.spec.replicas - running
    demand, pool = asked(subject, plan, room.fleet)
    later: tuple[_Place, ...] = ()
    if others:
        with room.without(others):
            later = _places(demand, pool, room, of=key, replicas=missing, started=started)
            for names in later:
                room.release(demand.per_node, names, of=key)
    now = _places(demand, pool, room, of=key, replicas=missing, started=started)
    placed = Placed(
        choice,
        room_now=running + len(now),
        room_later=running + max(len(now), len(later)),
        nodes=now,
    )
    if len(now) >= missing:
        return placed
    return replace(
        placed,
        shortfall=replica_shortfall(subject, demand, pool, room),
        frees=frees(room, demand, pool, others),
        pods=frozenset(pod.uid for pod in pods),
    )


_Place = tuple[str, ...]


def _places(
    demand: Demand, pool: Pool, room: Room, *, of: Key, replicas: int, started: int
) -> tuple[_Place, ...]:
    """Places for so many replicas, taken from the room; those that find none are left out.

    `started` pods of the first of them run already.
    """
    found: list[_Place] = []
    while len(found) < replicas:
        first = started if not found else 0
        part = replace(demand, nodes=demand.nodes - first) if first else demand
        names = room.place(part, pool)
        if names is None:
            break
        room.take(part.per_node, names, of=of)
        found.append(names)
    return tuple(found)


def _given_up(snapshot: Snapshot, model: ParsedModel, standing: Standing) -> bool:
    """Whether no pod will come soon: the cluster refuses them, or the revision's time is up."""
    policy = policy_of(model.spec.rollout)
    trial = trial_of(standing, desired=model.spec.replicas, policy=policy, now=snapshot.now)
    return trial.failed or standing.refused or finds_no_node(standing, policy, snapshot.now)


def _place(snapshot: Snapshot, model: ParsedModel) -> tuple[int, datetime, str, str]:
    placement = model.spec.placement
    name = placement.priority_class_name if placement is not None else None
    priority = snapshot.priorities.get(name, 0) if name is not None else 0
    return -priority, model.metadata.created or _NEWEST, *model.key
