"""The identity of a model's pods: they get no token of the API server."""

from kindling_operator.model.names import SERVICE_ACCOUNT
from kindling_operator.model.parse import Metadata
from kindling_operator.render.metadata import Manifest, manifest, metadata


def service_account(owner: Metadata) -> Manifest:
    """The ServiceAccount that bears the model's name."""
    return manifest(
        SERVICE_ACCOUNT,
        metadata(owner, owner.key.name, component="identity"),
        automountServiceAccountToken=False,
    )
