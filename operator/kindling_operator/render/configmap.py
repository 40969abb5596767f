"""What pods read: the launch plan of their revision, and the limits of the moment."""

from kindling_operator.model.names import CONFIG_MAP, limits_object_name, revision_object_name
from kindling_operator.model.parse import Metadata
from kindling_operator.model.plan import Revision
from kindling_operator.render.fetching import CACHE_LIMIT_KEY
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


def limits_config(owner: Metadata, cache_bytes: int) -> Manifest:
    """The ConfigMap of a model with the limit of its cache: a pod that starts reads it, whatever
    its revision."""
    return manifest(
        CONFIG_MAP,
        metadata(owner, limits_object_name(owner.key.name), component="limits"),
        data={CACHE_LIMIT_KEY: str(cache_bytes)},
    )
