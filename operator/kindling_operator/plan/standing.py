"""What stands in the cluster of each stored revision of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kindling_operator.model.names import DEPLOYMENT, revision_object_name
from kindling_operator.model.objects import ChildView
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Revision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.revision import stored_revisions, wanted_hash


@dataclass(frozen=True, slots=True)
class Standing:
    """One revision and its Deployment: `replicas` asked of it, None without a Deployment.

    `available` replicas have been ready; `routed` is True if one of them is among the endpoints.
    `deployed_at` is when the Deployment was made, `started` when the first of its present pods was,
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
    deployments = {
        child.ref.name: child
        for child in snapshot.children.get(model.key, ())
        if child.ref.kind == DEPLOYMENT and child.owner_uid == model.metadata.uid
    }
    return tuple(
        standing_of(snapshot, model, revision, deployments)
        for revision in stored_revisions(snapshot, model)
    )


def standing_of(
    snapshot: Snapshot,
    model: ParsedModel | Invalid,
    revision: Revision,
    deployments: Mapping[str, ChildView],
) -> Standing:
    """One revision; `deployments` are the model's by name."""
    routed = set(snapshot.endpoints.get(model.key, ()))
    pods = [pod for pod in snapshot.pods_of(model.key) if pod.revision == revision.hash]
    deployment = deployments.get(revision_object_name(model.key.name, revision.hash))
    return Standing(
        revision=revision,
        replicas=_replicas(deployment) if deployment is not None else None,
        available=deployment.status.get("availableReplicas", 0) if deployment is not None else 0,
        routed=any(pod.name in routed for pod in pods),
        deployed_at=deployment.created if deployment is not None else None,
        started=min((pod.created for pod in pods), default=None),
        refused=deployment is not None and bool(deployment.failure),
    )


def stored_for(model: ParsedModel, standing: Iterable[Standing]) -> Standing | None:
    """The stored revision that the spec asks for."""
    name = wanted_hash(model)
    return next((each for each in standing if each.revision.hash == name), None)


def _replicas(deployment: ChildView) -> int:
    found = deployment.manifest.get("spec", {}).get("replicas", 1)
    return found if isinstance(found, int) else 1
