"""Names that are taken: checked for every child before the first one is written."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kindling_operator.kube.client import Body, Kube
from kindling_operator.kube.errors import NotFoundError
from kindling_operator.kube.kinds import MODEL
from kindling_operator.kube.managers import created_entry
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import CHILD_KINDS, Key, Kind
from kindling_operator.model.objects import ChildView, ObjectRef
from kindling_operator.model.plan import Verdict

_KINDS = {(kind.api_version, kind.kind): kind for kind in CHILD_KINDS}


@dataclass(frozen=True, slots=True)
class Child:
    """One manifest with what stands under its name now: `ref` None is nothing, and then the
    object is created; else exactly that object, unchanged, is written. `observed` is its view, None
    while the watch has not shown it yet. `created_entry` as in ChildView."""

    kind: Kind
    manifest: Mapping[str, Any]
    observed: ChildView | None
    ref: ObjectRef | None
    created_entry: int | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """An object under a child's name that is not ours. `leaving`: it belonged to an InferenceModel
    of the same name that is gone, and the garbage collector is about to remove it."""

    ref: ObjectRef
    leaving: bool


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of a rendered manifest; KeyError if prune would not look at it."""
    return _KINDS[manifest["apiVersion"], manifest["kind"]]


async def look(
    kube: Kube,
    manifests: Sequence[Mapping[str, Any]],
    *,
    key: Key,
    owner_uid: str,
    children: Sequence[ChildView],
) -> list[Child | Taken]:
    """What stands under each manifest's name, in the order of apply.

    Names that the watch does not show are asked for: an object without our labels is not watched.
    Raises KubeError if one of the questions fails.
    """
    order = {kind: place for place, kind in enumerate(CHILD_KINDS)}
    wanted = sorted(manifests, key=lambda m: (order[kind_of(m)], m["metadata"]["name"]))
    shown = {(child.ref.kind, child.ref.name): child for child in children}
    return list(
        await asyncio.gather(
            *(_look_at(kube, m, shown, key=key, owner_uid=owner_uid) for m in wanted)
        )
    )


async def _look_at(
    kube: Kube,
    manifest: Mapping[str, Any],
    shown: Mapping[tuple[Kind, str], ChildView],
    *,
    key: Key,
    owner_uid: str,
) -> Child | Taken:
    kind, name = kind_of(manifest), manifest["metadata"]["name"]
    seen = shown.get((kind, name))
    if seen is not None and seen.owner_uid == owner_uid:
        return Child(kind, manifest, seen, seen.ref, seen.created_entry)
    try:
        found = await kube.get(kind, key.namespace, name)
    except NotFoundError:
        return Child(kind, manifest, None, None)
    ref, controller = _ref(kind, found), _controller(found)
    ours = MODEL.is_of(controller)
    if ours and controller.get("uid") == owner_uid:
        return Child(kind, manifest, None, ref, created_entry(found))
    former = ours and controller.get("name") == key.name
    return Taken(ref, leaving=former or "deletionTimestamp" in found["metadata"])


def conflict(taken: Taken) -> Verdict:
    """The refusal that names what is in the way."""
    return Verdict(
        condition=ConditionType.ACCEPTED,
        reason=Reason.NAME_CONFLICT,
        message=(
            f"{taken.ref} exists and does not belong to this InferenceModel: delete it or give the"
            " InferenceModel another name."
        ),
    )


def _ref(kind: Kind, body: Body) -> ObjectRef:
    metadata = body["metadata"]
    return ObjectRef(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
    )


def _controller(body: Body) -> Mapping[str, Any]:
    owners = body["metadata"].get("ownerReferences", ())
    return next((owner for owner in owners if owner.get("controller")), {})
