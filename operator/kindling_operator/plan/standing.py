"""What stands in the cluster of each stored revision of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Revision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.revision import stored_revisions, wanted_hash
from kindling_operator.plan.workloads import workload_of


@dataclass(frozen=True, slots=True)
class Standing:
    """One revision and its workload: `replicas` asked of it, None without a workload.

    `available` replicas have been ready; `routed` is True if one of them is among the endpoints.
    `deployed_at` is when the workload was made, `started` when the first of its present pods was,
    None without pods. `refused` is True while the cluster lets no pod of it be made (a quota, a Pod
    Security profile).
    """

    revision: Revision
    replicas: int | None = None
    available: int = 0
    routed: bool = False
    deployed_at: datetime | None = None
    started: datetime | None = None
    refused: bool = False

    @property
    def deployed(self) -> bool:
        return self.replicas is not None


def standings(snapshot: Snapshot, model: ParsedModel | Invalid) -> tuple[Standing, ...]:
    """Every stored revision, the newest first."""
    return tuple(
        standing_of(snapshot, model, revision) for revision in stored_revisions(snapshot, model)
    )


def standing_of(snapshot: Snapshot, model: ParsedModel | Invalid, revision: Revision) -> Standing:
    """One revision as it stands."""
    routed = set(snapshot.endpoints.get(model.key, ()))
    pods = [pod for pod in snapshot.pods_of(model.key) if pod.revision == revision.hash]
    workload = workload_of(snapshot, model, revision)
    # A group that gave its GPUs back is made again: its pods' age tells nothing of the trial's.
    first = min((pod.created for pod in pods), default=None) if revision.released is None else None
    return Standing(
        revision=revision,
        replicas=workload.replicas if workload is not None else None,
        available=workload.available if workload is not None else 0,
        routed=any(pod.name in routed for pod in pods),
        deployed_at=workload.created if workload is not None else None,
        started=first,
        refused=workload is not None and workload.refused,
    )


def stored_for(model: ParsedModel, standing: Iterable[Standing]) -> Standing | None:
    """The stored revision that the spec asks for."""
    name = wanted_hash(model)
    return next((each for each in standing if each.revision.hash == name), None)
