"""The Deployment of one revision: its template never changes, only its replicas do."""

from math import ceil

from kindling_operator.model.api import Rollout
from kindling_operator.model.names import (
    DEPLOYMENT,
    ENGINE_CONTAINER,
    LABEL_REVISION,
    revision_object_name,
)
from kindling_operator.model.parse import Metadata
from kindling_operator.model.plan import RevisionTarget
from kindling_operator.plan.trial import policy_of
from kindling_operator.render.metadata import Manifest, leader_selector, manifest, metadata
from kindling_operator.render.revision import revision_data

_LARGEST = 2**31 - 1


def deployment(owner: Metadata, target: RevisionTarget, rollout: Rollout) -> Manifest:
    """The Deployment of a revision, with its stored pod template."""
    revision = target.revision
    deadline = ceil(policy_of(rollout).deadline_of(revision).total_seconds())
    return manifest(
        DEPLOYMENT,
        metadata(
            owner,
            revision_object_name(owner.key.name, revision.hash),
            component=ENGINE_CONTAINER,
            revision=revision.hash,
        ),
        spec={
            "replicas": target.replicas,
            "revisionHistoryLimit": 0,
            "progressDeadlineSeconds": min(deadline, _LARGEST),
            "selector": {
                "matchLabels": {**leader_selector(owner.key), LABEL_REVISION: revision.hash}
            },
            "template": revision_data(owner.key, revision)["template"],
        },
    )
