"""The endpoint inside the cluster."""

from kindling_operator.model.names import SERVICE
from kindling_operator.model.parse import Metadata
from kindling_operator.render.metadata import Manifest, leader_selector, manifest, metadata
from kindling_operator.render.podtemplate import HTTP_PORT_NAME


def service(owner: Metadata, *, port: int) -> Manifest:
    """The Service that bears the model's name, before the ready pods of all revisions."""
    return manifest(
        SERVICE,
        metadata(owner, owner.key.name, component="endpoint"),
        spec={
            "type": "ClusterIP",
            "selector": leader_selector(owner.key),
            "ports": [
                {
                    "name": HTTP_PORT_NAME,
                    "port": port,
                    "targetPort": HTTP_PORT_NAME,
                    "protocol": "TCP",
                }
            ],
        },
    )
