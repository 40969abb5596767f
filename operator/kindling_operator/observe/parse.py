"""Bodies as the watches deliver them, into views. Nothing here raises, whatever a body holds."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from kindling_operator.kube.kinds import MODEL
from kindling_operator.kube.managers import created_entry
from kindling_operator.model import names
from kindling_operator.model.names import Key, Kind
from kindling_operator.model.objects import (
    ENDED_PHASES,
    ChildView,
    ClaimView,
    EndpointsView,
    ObjectRef,
    PodView,
)
from kindling_operator.model.parse import Invalid, ParsedModel, parse
from kindling_operator.observe.fields import (
    Body,
    amount,
    flag,
    items,
    mapping,
    moment,
    number,
    text,
)
from kindling_operator.observe.requests import read_requests

_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")
_WORKLOAD_COUNTS: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "observedGeneration",
)


def model(body: Body) -> ParsedModel | Invalid | None:
    """An InferenceModel, valid or not; None for one without a name, which no API server has."""
    if not text(body, "metadata", "name"):
        return None
    try:
        return parse({**body, "status": mapping(body, "status")})
    except msgspec.ValidationError:
        return None


def pod(body: Body) -> PodView | None:
    """A pod of ours, or one that holds or awaits GPUs; None for any other."""
    model, wanted = model_key(body), read_requests(body)
    phase = text(body, "status", "phase")
    if model is None and (wanted.gpus == 0 or phase in ENDED_PHASES):
        return None
    scheduled, is_ready = _conditions(body, "PodScheduled", "Ready")
    return PodView(
        namespace=text(body, "metadata", "namespace"),
        name=text(body, "metadata", "name"),
        uid=text(body, "metadata", "uid"),
        created=moment(body, "metadata", "creationTimestamp"),
        node=text(body, "spec", "nodeName"),
        phase=phase,
        gpus=wanted.gpus,
        cpu_millis=wanted.cpu_millis,
        memory=wanted.memory,
        ephemeral=wanted.ephemeral,
        model=model,
        revision=text(body, "metadata", "labels", names.LABEL_REVISION),
        ready=text(is_ready, "status") == "True",
        terminating=bool(text(body, "metadata", "deletionTimestamp")),
        unschedulable=text(scheduled, "message") if text(scheduled, "status") == "False" else "",
        group=text(body, "metadata", "labels", names.LABEL_GROUP),
        rank=amount(body, "metadata", "labels", names.LABEL_RANK),
        address=text(body, "status", "podIP"),
        scheduled=_since(scheduled, "True"),
        unready_since=_since(is_ready, "False"),
        **_container(body),
    )


def _container(body: Body) -> dict[str, Any]:
    """The fields of a pod that its engine's container tells, or the one that downloads before."""
    engine = (download := _download_status(body)) or _engine_status(body)
    waiting, ended = mapping(engine, "state", "waiting"), _last_end(engine)
    return {
        "waiting_reason": text(waiting, "reason"),
        "waiting_message": text(waiting, "message"),
        "ended_exit_code": number(ended, "exitCode") if ended else None,
        "ended_reason": text(ended, "reason"),
        "ended_message": text(ended, "message").strip(),
        "ended_at": moment(ended, "finishedAt") if text(ended, "finishedAt") else None,
        "ended_after": _lived(ended),
        "restarts": number(engine, "restartCount"),
        "image": text(engine, "image"),
        "started": _running_since(engine),
        "fetching": _running_since(download) is not None,
        "downloads": bool(download),
        "up": flag(engine, "started"),
    }


def claim(body: Body) -> ClaimView:
    """A PersistentVolumeClaim."""
    return ClaimView(
        namespace=text(body, "metadata", "namespace"),
        name=text(body, "metadata", "name"),
        phase=text(body, "status", "phase"),
        terminating=bool(text(body, "metadata", "deletionTimestamp")),
    )


def endpoints(body: Body) -> EndpointsView | None:
    """The ready pods of one EndpointSlice of a model's own Service; None for any other slice.

    Its labels are a copy of the Service's, and another Service may carry ours.

    A missing `ready` means ready (EndpointConditions of discovery.k8s.io/v1).
    """
    model = model_key(body)
    if model is None or not _is_of_service(body, model.name):
        return None
    ready = {
        text(each, "targetRef", "name")
        for each in items(body, "endpoints")
        if mapping(each, "conditions").get("ready") is not False
        and text(each, "targetRef", "kind") == "Pod"
    }
    return EndpointsView(model, text(body, "metadata", "name"), tuple(sorted(ready - {""})))


def _is_of_service(body: Body, name: str) -> bool:
    owner = controller_of(body)
    return (
        text(body, "metadata", "labels", names.LABEL_SERVICE_NAME) == name
        and names.SERVICE.is_of(owner)
        and text(owner, "name") == name
    )


def child(body: Body, kind: Kind) -> ChildView:
    """An object of CHILD_KINDS that carries our labels."""
    controller = controller_of(body)
    namespace = text(body, "metadata", "namespace")
    ours = MODEL.is_of(controller)
    return ChildView(
        ref=reference(body, kind),
        owner=Key(namespace, text(controller, "name")) if ours else None,
        owner_uid=text(controller, "uid") if ours else "",
        created=moment(body, "metadata", "creationTimestamp"),
        generation=number(body, "metadata", "generation"),
        terminating=bool(text(body, "metadata", "deletionTimestamp")),
        manifest=_own_part(body, kind),
        created_entry=created_entry(body),
        failure=_replica_failure(body) if kind == names.DEPLOYMENT else "",
        status={
            field: number(body, "status", field)
            for field in _WORKLOAD_COUNTS
            if kind in names.WORKLOAD_KINDS and field in mapping(body, "status")
        },
    )


def priority(body: Body) -> int:
    """The value of a PriorityClass."""
    return number(body, "value")


def _replica_failure(body: Body) -> str:
    """Why a Deployment's pods are not created, as its ReplicaFailure condition tells."""
    failures = (
        text(each, "message")
        for each in items(body, "status", "conditions")
        if text(each, "type") == "ReplicaFailure" and text(each, "status") == "True"
    )
    return next(failures, "")


def reference(body: Body, kind: Kind) -> ObjectRef:
    """The identity of an observed object."""
    return ObjectRef(
        kind=kind,
        namespace=text(body, "metadata", "namespace"),
        name=text(body, "metadata", "name"),
        uid=text(body, "metadata", "uid"),
        resource_version=text(body, "metadata", "resourceVersion"),
    )


def controller_of(body: Body) -> Mapping[str, Any]:
    """The controller's ownerReference, or an empty one."""
    owners = items(body, "metadata", "ownerReferences")
    return next((each for each in owners if flag(each, "controller")), {})


def model_key(body: Body) -> Key | None:
    """The model that an object belongs to by its labels."""
    name = text(body, "metadata", "labels", names.LABEL_MODEL)
    return Key(text(body, "metadata", "namespace"), name) if name else None


def _own_part(body: Body, kind: Kind) -> dict[str, Any]:
    """The object without status and without the metadata that the API server sets."""
    metadata = mapping(body, "metadata")
    kept = {field: metadata[field] for field in _KEPT_METADATA if metadata.get(field)}
    rest = {k: v for k, v in body.items() if k not in {"metadata", "status"}}
    # Items of a list carry neither; whoever compares needs both.
    return {**rest, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": kept}


def _engine_status(body: Body) -> Mapping[str, Any]:
    statuses = items(body, "status", "containerStatuses")
    return next((each for each in statuses if text(each, "name") == names.ENGINE_CONTAINER), {})


def _conditions(body: Body, *types: str) -> tuple[Mapping[str, Any], ...]:
    """These conditions of a pod, empty where it has none."""
    found = {text(each, "type"): each for each in items(body, "status", "conditions")}
    return tuple(found.get(each, {}) for each in types)


def _download_status(body: Body) -> Mapping[str, Any]:
    """The container that downloads, until it has done so; an empty one beside that."""
    statuses = items(body, "status", "initContainerStatuses")
    found = next((each for each in statuses if text(each, "name") == names.FETCH_CONTAINER), {})
    ended = mapping(found, "state", "terminated")
    return {} if ended and number(ended, "exitCode") == 0 else found


def _last_end(engine: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the container ended last: just now, or before its restart."""
    now = mapping(engine, "state", "terminated")
    return now or mapping(engine, "lastState", "terminated")


def _lived(ended: Mapping[str, Any]) -> timedelta | None:
    """How long a container ran that has ended; None where that is not told."""
    if not text(ended, "startedAt") or not text(ended, "finishedAt"):
        return None
    return moment(ended, "finishedAt") - moment(ended, "startedAt")


def _running_since(engine: Mapping[str, Any]) -> datetime | None:
    """When the container began to run; None while it waits or has ended."""
    running = mapping(engine, "state", "running")
    return moment(running, "startedAt") if running else None


def _since(condition: object, status: str) -> datetime | None:
    """Since when a condition has had this status; None while it has another."""
    if text(condition, "status") != status or not text(condition, "lastTransitionTime"):
        return None
    return moment(condition, "lastTransitionTime")
