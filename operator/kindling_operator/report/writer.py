"""The only writer of status."""

from collections.abc import Mapping
from typing import Any

from kindling_operator.kube.client import Kube
from kindling_operator.kube.kinds import MODEL
from kindling_operator.model.names import STATUS_FIELD_MANAGER
from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.parse import Invalid, ParsedModel


def differs(model: ParsedModel | Invalid, wire: Mapping[str, Any]) -> bool:
    """Whether the stored status is not exactly this one."""
    return dict(model.status) != dict(wire)


async def write(kube: Kube, model: ParsedModel | Invalid, wire: Mapping[str, Any]) -> ObjectRef:
    """Replace the status of this very object, whole; the object's reference after it.

    Raises KubeError; ConflictError if the object is not the one any more that was decided on.
    """
    metadata = model.metadata
    body = await kube.apply_status(
        {
            "apiVersion": MODEL.api_version,
            "kind": MODEL.kind,
            "metadata": {
                "namespace": metadata.key.namespace,
                "name": metadata.key.name,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": wire,
        },
        MODEL,
        manager=STATUS_FIELD_MANAGER,
    )
    new = body["metadata"]
    return ObjectRef(MODEL, new["namespace"], new["name"], new["uid"], new["resourceVersion"])
