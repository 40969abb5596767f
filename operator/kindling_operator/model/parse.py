"""One InferenceModel as the API server stores it, read once at the edge.

An object may have passed an older CRD, or none (`kindling plan -f`), so the types, the bounds and
the rules are all checked again here.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.api_model import ModelName
from kindling_operator.model.conditions import Reason, fit_message
from kindling_operator.model.names import ANNOTATION_REPLAN, GROUP, Key
from kindling_operator.model.rules import name_problem, spec_problem
from kindling_operator.model.status import MAX_LINE


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
        """The user's last word for a new plan, or ""; of one that status cannot hold, a digest."""
        word = self.annotations.get(ANNOTATION_REPLAN, "")
        if len(word) <= MAX_LINE:
            return word
        return f"sha256:{hashlib.sha256(word.encode()).hexdigest()}"


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
    try:
        spec = msgspec.convert(body.get("spec") or {}, InferenceModelSpec)
    except msgspec.ValidationError as error:
        return Invalid(metadata, *_ill_typed(str(error), body.get("spec") or {}), status)
    problem = name_problem(metadata.key.name) or spec_problem(spec)
    if problem is not None:
        return Invalid(metadata, _reason(problem), fit_message(f"{problem}."), status)
    return ParsedModel(metadata, spec, status)


def _ill_typed(error: str, spec: Mapping[str, Any]) -> tuple[Reason, str]:
    """msgspec's ``Expected `int`, got `str` - at `$.replicas` `` as a reason and a sentence."""
    what, _, where = error.partition(" - at `$")
    path = where.rstrip("`")
    if path == ".model.name":
        return Reason.UNKNOWN_MODEL, fit_message(
            f"spec.model.name {_value_at(spec, path)!r} is not in the catalog: use one of"
            f" {', '.join(ModelName)}."
        )
    value = _value_at(spec, path)
    shown = f" {value!r}" if isinstance(value, int | float | str) else ""
    plain = what.replace("`", "").replace(" | null", "")
    plain = plain.replace("Object contains unknown field", "there is no field")
    plain = plain.replace("Object missing required field", "the required field is missing:")
    sentence = f"spec{path}{shown}: {plain[:1].lower()}{plain[1:]}"
    field_path = re.sub(r"\[[^]]*\]", "", path)
    return _reason(sentence), fit_message(f"{sentence}, see `kubectl explain im.spec{field_path}`.")


def _reason(problem: str) -> Reason:
    custom = problem.startswith(("spec.model.custom.", "spec.model.custom:"))
    return Reason.INVALID_ARCHITECTURE if custom else Reason.INVALID_SPEC


def _value_at(spec: Any, path: str) -> Any:
    """The value at a path such as ``.serving.extraArgs[1]``, or None where the path ends early."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        try:
            spec = spec[name or int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return spec


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
