"""What runs a revision in the cluster: its Deployment, or the LeaderWorkerSets of its groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kindling_operator.model.names import (
    DEPLOYMENT,
    LEADER_WORKER_SET,
    group_number,
    group_object_name,
    revision_object_name,
)
from kindling_operator.model.objects import ChildView
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Revision
from kindling_operator.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Workload:
    """`replicas` are asked for and `available` of them ready; `created` is when the time began in
    which the first must serve. `refused` is True while the cluster lets no pod of it be made."""

    replicas: int
    available: int
    created: datetime
    refused: bool = False


def workload_of(
    snapshot: Snapshot, model: ParsedModel | Invalid, revision: Revision
) -> Workload | None:
    """What runs a revision; None if nothing does."""
    if revision.plan.group is not None:
        return _of_groups(revision, group_sets(snapshot, model, revision).values())
    name = revision_object_name(model.key.name, revision.hash)
    found = (c for c in _own(snapshot, model) if (c.ref.kind, c.ref.name) == (DEPLOYMENT, name))
    return next((_of_deployment(child) for child in found), None)


def group_sets(
    snapshot: Snapshot, model: ParsedModel | Invalid, revision: Revision
) -> dict[int, ChildView]:
    """The LeaderWorkerSets of a revision by number, those left out that are being deleted."""
    numbered = (
        (group_number(child.ref.name), child)
        for child in _own(snapshot, model)
        if child.ref.kind == LEADER_WORKER_SET and not child.terminating
    )
    name, hash_ = model.key.name, revision.hash
    mine = {n: c for n, c in numbered if c.ref.name == group_object_name(name, hash_, n)}
    return dict(sorted(mine.items()))


def _own(snapshot: Snapshot, model: ParsedModel | Invalid) -> Iterable[ChildView]:
    uid = model.metadata.uid
    return (c for c in snapshot.children.get(model.key, ()) if c.owner_uid == uid)


def _of_deployment(child: ChildView) -> Workload:
    wanted = child.manifest.get("spec", {}).get("replicas", 1)
    return Workload(
        replicas=wanted if isinstance(wanted, int) else 1,
        available=child.status.get("availableReplicas", 0),
        created=child.created,
        refused=bool(child.failure),
    )


def _of_groups(revision: Revision, sets: Iterable[ChildView]) -> Workload | None:
    """Every group is an object of its own, which comes and goes: the time began with the revision.

    A revision whose groups have given their GPUs back is still on trial.
    """
    present = list(sets)
    if not present and revision.released is None:
        return None
    began = min((child.created for child in present), default=revision.created)
    if revision.released is not None:
        began = revision.created
    if began is None:
        return None
    return Workload(
        replicas=len(present),
        available=sum(1 for child in present if child.status.get("readyReplicas", 0)),
        created=began,
    )
