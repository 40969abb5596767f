"""The memory of a plan: made once, then applied as it was stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kindling_operator.model.conditions import rfc3339
from kindling_operator.model.names import (
    ANNOTATION_FAILED,
    ANNOTATION_RELEASED,
    ANNOTATION_SERVED,
    ANNOTATION_WHY,
    CONTROLLER_REVISION,
    Key,
    revision_object_name,
)
from kindling_operator.model.parse import Metadata
from kindling_operator.model.plan import Revision
from kindling_operator.render.launch import launch_text
from kindling_operator.render.metadata import Manifest, manifest, metadata
from kindling_operator.render.podtemplate import pod_template, worker_template

_NUMBER = 1
"""The API wants a number; the order of revisions is that of their creation."""


def revision_data(key: Key, revision: Revision) -> Mapping[str, Any]:
    """What is stored of a revision: verbatim if it is stored already, else rendered now."""
    if revision.data is not None:
        return revision.data
    return {
        "inputs": revision.inputs,
        "replan": revision.replan,
        "plan": msgspec.json.decode(msgspec.json.encode(revision.plan)),
        "template": pod_template(key, revision.hash, revision.plan),
        **_worker(key, revision),
        "launch": launch_text(revision.plan),
    }


def _worker(key: Key, revision: Revision) -> dict[str, Any]:
    if revision.plan.group is None:
        return {}
    return {"worker": worker_template(key, revision.hash, revision.plan)}


def controller_revision(owner: Metadata, revision: Revision) -> Manifest:
    """The ControllerRevision of a plan; its annotations remember what became of it."""
    memory = {
        ANNOTATION_SERVED: "true" if revision.served else "",
        ANNOTATION_FAILED: "true" if revision.failed else "",
        ANNOTATION_WHY: revision.why,
        ANNOTATION_RELEASED: rfc3339(revision.released) if revision.released is not None else "",
    }
    return manifest(
        CONTROLLER_REVISION,
        metadata(
            owner,
            revision_object_name(owner.key.name, revision.hash),
            component="plan",
            revision=revision.hash,
            annotations={name: value for name, value in memory.items() if value},
        ),
        revision=_NUMBER,
        data=revision_data(owner.key, revision),
    )
