"""Names, labels and owner: the same on every object that is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kindling_operator.model.names import (
    API_VERSION,
    KIND,
    LABEL_COMPONENT,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    LABEL_MODEL,
    LABEL_NAME,
    LABEL_REVISION,
    LABEL_ROLE,
    MANAGED_BY,
    ROLE_LEADER,
    Key,
    Kind,
)
from kindling_operator.model.parse import Metadata

Manifest = dict[str, Any]

_APPLICATION = "inference-model"


def manifest(kind: Kind, metadata: Mapping[str, Any], **body: Any) -> Manifest:
    """An object of a kind: its metadata and what else it has."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def metadata(
    owner: Metadata,
    name: str,
    *,
    component: str,
    revision: str = "",
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Metadata of a child; `component` says what part of the model it is."""
    found: dict[str, Any] = {
        "name": name,
        "namespace": owner.key.namespace,
        "labels": labels(owner.key, component, revision),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": owner.key.name,
                "uid": owner.uid,
                "controller": True,
            }
        ],
    }
    return {**found, "annotations": dict(annotations)} if annotations else found


def labels(key: Key, component: str, revision: str = "") -> dict[str, str]:
    """The labels by which people and watches find a model's objects."""
    found = {
        LABEL_NAME: _APPLICATION,
        LABEL_INSTANCE: key.name,
        LABEL_COMPONENT: component,
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_MODEL: key.name,
    }
    return {**found, LABEL_REVISION: revision} if revision else found


def leader_selector(key: Key) -> dict[str, str]:
    """The pods that answer requests, of every revision."""
    return {LABEL_MODEL: key.name, LABEL_ROLE: ROLE_LEADER}
