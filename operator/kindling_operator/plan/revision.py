"""Frozen plans: which inputs a plan belongs to, its name, and what is stored of it.

A plan belongs to a digest of the spec's fields that it depends on; replicas, scaling, rollout and
endpoint are not among them. `kindling replan` adds a word to the digest, and so makes another
revision of the same inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.api_cache import Cache, ObjectStore
from kindling_operator.model.api_model import Model
from kindling_operator.model.api_serving import Serving
from kindling_operator.model.names import (
    ANNOTATION_FAILED,
    ANNOTATION_RELEASED,
    ANNOTATION_SERVED,
    ANNOTATION_WHY,
    CONTROLLER_REVISION,
    REVISION_DIGITS,
    revision_object_name,
)
from kindling_operator.model.objects import ChildView
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import EnginePlan, Revision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.canonical import said


def inputs_digest(spec: InferenceModelSpec) -> str:
    """Digest of the fields that a plan depends on.

    Fields that have their default are left out, so a new optional field does not change the digest
    of an object that does not use it; and each value has one spelling.
    """
    cache = spec.cache or Cache()
    tiers = said(cache)
    inputs = {
        "model": said(_planned(spec.model)),
        "serving": said(spec.serving),
        "placement": said(spec.placement),
        "runtime": said(spec.runtime),
        "hostMemory": tiers.get("hostMemory"),
        "encoderMemory": tiers.get("encoderMemory"),
        "objectStore": _store_identity(cache.object_store),
    }
    given = {name: value for name, value in inputs.items() if value not in (None, {})}
    return hashlib.sha256(msgspec.json.encode(given, order="sorted")).hexdigest()


def beside_the_plan(spec: InferenceModelSpec) -> InferenceModelSpec:
    """The spec with those fields alone that `inputs_digest` leaves out."""
    return msgspec.structs.replace(
        spec,
        model=Model(name=spec.model.name),
        serving=Serving(),
        placement=None,
        runtime=None,
        cache=None,
    )


def revision_hash(inputs: str, replan: str) -> str:
    """The revision's name part for these inputs and the user's last word for a new plan."""
    whole = hashlib.sha256(f"{inputs}\n{replan}".encode()).hexdigest()
    return whole[:REVISION_DIGITS]


def new_revision(model: ParsedModel, plan: EnginePlan) -> Revision:
    """A revision that is not stored yet."""
    inputs, replan = inputs_digest(model.spec), model.metadata.replan
    return Revision(hash=revision_hash(inputs, replan), inputs=inputs, replan=replan, plan=plan)


def wanted_hash(model: ParsedModel) -> str:
    """The name part of the revision that the present spec asks for."""
    return revision_hash(inputs_digest(model.spec), model.metadata.replan)


def stored_revisions(snapshot: Snapshot, model: ParsedModel | Invalid) -> tuple[Revision, ...]:
    """Every revision of a model that is stored, the newest first.

    Objects that only carry the model's labels do not count: the owner's uid decides.
    """
    routed = set(snapshot.endpoints.get(model.key, ()))
    serving = {p.revision for p in snapshot.pods_of(model.key) if p.name in routed}
    found = (
        _stored(child, model.key.name, serving)
        for child in snapshot.children.get(model.key, ())
        if child.ref.kind == CONTROLLER_REVISION and child.owner_uid == model.metadata.uid
    )
    revisions = [revision for revision in found if revision is not None]
    return tuple(sorted(revisions, key=_age, reverse=True))


def _age(revision: Revision) -> tuple[datetime, str]:
    # Stored revisions have a time of creation; the API server gives it whole seconds.
    return revision.created or datetime.min.replace(tzinfo=UTC), revision.hash


def _stored(child: ChildView, model: str, serving: set[str]) -> Revision | None:
    """What a ControllerRevision holds; None for one that this code did not write."""
    hash_ = child.ref.name.removeprefix(revision_object_name(model, ""))
    data = child.manifest.get("data")
    if not isinstance(data, Mapping) or hash_ == child.ref.name:
        return None
    try:
        plan = msgspec.convert(data.get("plan"), EnginePlan)
    except msgspec.ValidationError:
        return None
    return Revision(
        hash=hash_,
        inputs=str(data.get("inputs", "")),
        replan=str(data.get("replan", "")),
        plan=plan,
        served=child.annotations.get(ANNOTATION_SERVED) == "true" or hash_ in serving,
        failed=child.annotations.get(ANNOTATION_FAILED) == "true",
        why=child.annotations.get(ANNOTATION_WHY, ""),
        created=child.created,
        released=_moment(child.annotations.get(ANNOTATION_RELEASED, "")),
        data=data,
    )


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _planned(model: Model) -> Model:
    """The model without the limit of its cache, which the next download reads (cachelimit)."""
    if model.weights is None:
        return model
    weights = msgspec.structs.replace(model.weights, cache_max_bytes=None)
    return msgspec.structs.replace(model, weights=weights)


def _store_identity(store: ObjectStore | None) -> dict[str, Any] | None:
    """Existence and identity of the store; its limits are not part of a plan (api.md 2.3).

    Nothing is left out of it: `podIdentity: {}` says something.
    """
    if store is None:
        return None
    wire: dict[str, Any] = msgspec.to_builtins(store)
    limits = ("admission", "maxBytes", "maxAge")
    return {key: value for key, value in wire.items() if key not in limits}
