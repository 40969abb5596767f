"""The launch plan, as the pod reads it."""

from kindling_operator.model.names import CONFIG_MAP, revision_object_name
from kindling_operator.model.parse import Metadata
from kindling_operator.model.plan import Revision
from kindling_operator.render.metadata import Manifest, manifest, metadata
from kindling_operator.render.podtemplate import PLAN_KEY
from kindling_operator.render.revision import revision_data


def launch_config(owner: Metadata, revision: Revision) -> Manifest:
    """The ConfigMap of a revision; immutable, so that the kubelet need not watch it."""
    return manifest(
        CONFIG_MAP,
        metadata(
            owner,
            revision_object_name(owner.key.name, revision.hash),
            component="launch",
            revision=revision.hash,
        ),
        immutable=True,
        data={PLAN_KEY: revision_data(owner.key, revision)["launch"]},
    )
