"""One InferenceModel as the API server stores it, read once at the edge.

An object may have passed an older CRD, or none (`kindling plan -f`), so the types, the bounds and
the rules are all checked again here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.conditions import Reason
from kindling_operator.model.names import ANNOTATION_REPLAN, GROUP, Key
from kindling_operator.model.rules import name_problem, spec_problem


@dataclass(frozen=True, slots=True)
class Metadata:
    """Identity and age of an InferenceModel; `annotations` holds only ours.

    `deletion` is None while the object is wanted.
    """

    key: Key
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created: datetime | None = None
    deletion: datetime | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def replan(self) -> str:
        """The user's last word for a new plan, or ""."""
        return self.annotations.get(ANNOTATION_REPLAN, "")


@dataclass(frozen=True, slots=True)
class ParsedModel:
    """A valid InferenceModel; `status` is the stored one, as it is on the wire."""

    metadata: Metadata
    spec: InferenceModelSpec
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.metadata.key


@dataclass(frozen=True, slots=True)
class Invalid:
    """An InferenceModel that cannot be read; `message` is one sentence for its owner."""

    metadata: Metadata
    reason: Reason
    message: str
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.metadata.key


class _WireMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    annotations: dict[str, str] | None = None


def parse(body: Mapping[str, Any]) -> ParsedModel | Invalid:
    """The typed object, or why it is none.

    Raises `msgspec.ValidationError` only if `metadata` itself is not Kubernetes metadata, which no
    API server and no valid manifest produces.
    """
    metadata = _metadata(body.get("metadata") or {})
    status = body.get("status") or {}
    problem = name_problem(metadata.key.name)
    try:
        spec = msgspec.convert(body.get("spec") or {}, InferenceModelSpec)
    except msgspec.ValidationError as error:
        return Invalid(metadata, Reason.INVALID_SPEC, ill_typed(str(error)), status)
    problem = problem or spec_problem(spec)
    if problem is not None:
        return Invalid(metadata, Reason.INVALID_SPEC, problem, status)
    return ParsedModel(metadata, spec, status)


def ill_typed(error: str) -> str:
    """msgspec's ``Expected `int`, got `str` - at `$.replicas` `` as a sentence with the path."""
    what, _, where = error.rpartition(" - at `$")
    what, where = (what, where.rstrip("`")) if what else (error, "")
    return (
        f"spec{where}: {what[:1].lower()}{what[1:].replace('`', '')}; correct the field,"
        " `kubectl explain im.spec --recursive` lists them all"
    )


def _metadata(raw: Mapping[str, Any]) -> Metadata:
    wire = msgspec.convert(dict(raw), _WireMetadata)
    annotations = wire.annotations or {}
    return Metadata(
        key=Key(wire.namespace, wire.name),
        uid=wire.uid,
        resource_version=wire.resource_version,
        generation=wire.generation,
        created=wire.creation_timestamp,
        deletion=wire.deletion_timestamp,
        annotations={k: v for k, v in annotations.items() if k.startswith(f"{GROUP}/")},
    )
