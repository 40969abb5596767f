"""The LeaderWorkerSet of one replica that is a group of pods."""

from __future__ import annotations

from kindling_operator.model.names import (
    ENGINE_CONTAINER,
    LEADER_WORKER_SET,
    group_object_name,
)
from kindling_operator.model.parse import Metadata
from kindling_operator.model.plan import GroupPlan, Revision
from kindling_operator.render.metadata import Manifest, manifest, metadata
from kindling_operator.render.revision import revision_data


def leader_worker_set(
    owner: Metadata, revision: Revision, group: GroupPlan, number: int
) -> Manifest:
    """One group, with the revision's stored pod templates. It is never changed: whoever wants one
    replica less deletes one of these, by name."""
    data = revision_data(owner.key, revision)
    return manifest(
        LEADER_WORKER_SET,
        metadata(
            owner,
            group_object_name(owner.key.name, revision.hash, number),
            component=ENGINE_CONTAINER,
            revision=revision.hash,
        ),
        spec={
            "replicas": 1,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "Shared"},
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0, "partition": 0},
            },
            "leaderWorkerTemplate": {
                "size": group.size,
                # The runtimes restart the engines of a group together. LeaderWorkerSet v0.8 would
                # delete the pods instead, as often as one fails and at once: no back-off, other
                # nodes, and nothing left of what the failed one had to say.
                "restartPolicy": "None",
                "leaderTemplate": data["template"],
                "workerTemplate": data["worker"],
            },
        },
    )
