"""From bodies to views: the fields that decisions read, and nothing for what they do not."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.observed import KEY, NOW

from kindling_operator.kube.kinds import CLAIM
from kindling_operator.model import names
from kindling_operator.model.names import CHILD_KINDS, CONFIG_MAP, DEPLOYMENT, SERVICE, Key
from kindling_operator.model.objects import ClaimView, EndpointsView, Taint
from kindling_operator.observe import nodes, parse
from kindling_operator.observe.fields import LONG_AGO
from kindling_operator.observe.watched import CHILDREN, MODELS, PODS, WATCHED

LABELS = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_MODEL: "flint"}


def metadata(name: str = "x", **more: Any) -> dict[str, Any]:
    return {
        "namespace": "ml",
        "name": name,
        "uid": "u",
        "resourceVersion": "5",
        "creationTimestamp": "2026-11-30T10:00:00Z",
        **more,
    }


def pod_body(*, gpus: str = "", labels: dict[str, str] | None = None, **status: Any) -> Any:
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    return {
        "metadata": metadata(labels=labels or {}),
        "spec": {"nodeName": "one", "containers": [{"name": "engine", "resources": resources}]},
        "status": {"phase": "Running", **status},
    }


def test_a_node_is_read_in_bytes_millicores_and_devices() -> None:
    view = nodes.node(
        {
            "metadata": {
                "name": "gpu-7",
                "labels": {
                    "nvidia.com/gpu.product": "NVIDIA-H200",
                    "nvidia.com/gpu.memory": "143771",
                },
            },
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "7910m", "memory": "1Gi", "nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"architecture": "amd64"},
            },
        }
    )

    assert (view.cpu_millis, view.memory, view.gpus) == (7910, 1 << 30, 8)
    assert (view.gpu_product, view.gpu_memory) == ("NVIDIA-H200", 143771 << 20)
    assert (view.architecture, view.ready, view.unschedulable) == ("amd64", True, False)
    assert view.taints == (Taint("gpu", "", "NoSchedule"),)


def test_a_pod_without_gpu_and_label_gives_no_view() -> None:
    assert parse.pod(pod_body()) is None


def test_a_foreign_pod_that_holds_gpus_gives_one_until_it_has_ended() -> None:
    view = parse.pod(pod_body(gpus="2"))

    assert view is not None
    assert (view.gpus, view.model, view.node) == (2, None, "one")
    assert parse.pod(pod_body(gpus="2", phase="Succeeded")) is None


def test_our_pod_gives_a_view_whatever_it_holds_and_however_it_ended() -> None:
    view = parse.pod(pod_body(labels={**LABELS, names.LABEL_REVISION: "abc"}, phase="Failed"))

    assert view is not None
    assert (view.model, view.revision, view.created) == (KEY, "abc", NOW)


def test_our_pod_tells_where_it_is_since_when_and_since_when_it_is_not_ready() -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2026-11-30T10:01:00Z",
    }
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-30T10:02:00Z"}

    view = parse.pod(pod_body(labels=LABELS, podIP="10.0.0.7", conditions=[scheduled, unready]))
    ready = parse.pod(pod_body(labels=LABELS, conditions=[{**unready, "status": "True"}]))

    assert view is not None
    assert ready is not None
    assert view.address == "10.0.0.7"
    assert view.scheduled == NOW + timedelta(minutes=1)
    assert view.unready_since == NOW + timedelta(minutes=2)
    assert (ready.address, ready.scheduled, ready.unready_since) == ("", None, None)


def test_gpus_are_what_the_pod_holds_at_most_at_one_time() -> None:
    def container(gpus: int, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}, **more}

    body = pod_body()
    body["spec"]["initContainers"] = [
        container(1, restartPolicy="Always"),
        container(4),
        container(3),
    ]
    body["spec"]["containers"] = [container(2), container(1)]
    view = parse.pod(body)

    assert view is not None
    assert view.gpus == 5  # the sidecar and the larger init container


def test_why_the_engine_waits_and_how_it_ended_are_read_from_its_container() -> None:
    view = parse.pod(
        pod_body(
            labels=LABELS,
            conditions=[
                {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"},
                {"type": "Ready", "status": "False"},
            ],
            containerStatuses=[
                {"name": "sidecar", "restartCount": 9},
                {
                    "name": "engine",
                    "restartCount": 2,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {
                        "terminated": {"exitCode": 70, "reason": "Error", "message": "It broke.\n"}
                    },
                },
            ],
        )
    )

    assert view is not None
    assert view.unschedulable == "0/1 nodes are available"
    assert (view.waiting_reason, view.waiting_message) == ("CrashLoopBackOff", "back-off")
    assert (view.ended_exit_code, view.ended_reason, view.ended_message) == (
        70,
        "Error",
        "It broke.",
    )
    assert view.restarts == 2
    assert not view.ready


def test_a_container_that_was_started_again_runs_and_keeps_its_last_end() -> None:
    view = parse.pod(
        pod_body(
            labels=LABELS,
            containerStatuses=[
                {
                    "name": "engine",
                    "restartCount": 1,
                    "started": True,
                    "state": {"running": {"startedAt": "2026-11-30T10:00:00Z"}},
                    "lastState": {
                        "terminated": {
                            "exitCode": 70,
                            "reason": "Error",
                            "startedAt": "2026-11-30T09:50:00Z",
                            "finishedAt": "2026-11-30T09:59:00Z",
                        }
                    },
                }
            ],
        )
    )

    assert view is not None
    assert (view.started, view.ended_exit_code, view.up) == (NOW, 70, True)
    assert view.ended_at == NOW - timedelta(minutes=1)
    assert view.ended_after == timedelta(minutes=9)


@pytest.mark.parametrize(
    ("state", "last", "told"),
    [
        ({"running": {"startedAt": "2026-11-30T10:00:00Z"}}, {}, (True, True, NOW, None, "")),
        (
            {"waiting": {"reason": "CrashLoopBackOff"}},
            {"terminated": {"exitCode": 78, "message": "CacheFull: full.\n"}},
            (True, False, None, 78, "CrashLoopBackOff"),
        ),
        ({"terminated": {"exitCode": 0}}, {}, (False, False, None, None, "PodInitializing")),
    ],
    ids=["runs", "failed", "is over"],
)
def test_until_the_weights_are_there_the_download_tells(state: Any, last: Any, told: Any) -> None:
    fetch = {"name": "fetch", "restartCount": 1, "state": state, "lastState": last}
    engine = {"name": "engine", "state": {"waiting": {"reason": "PodInitializing"}}}
    body = pod_body(labels=LABELS, initContainerStatuses=[fetch], containerStatuses=[engine])

    view = parse.pod(body)
    assert view is not None
    seen = (view.downloads, view.fetching, view.started, view.ended_exit_code, view.waiting_reason)
    assert seen == told


def slice_metadata(
    service: str = "flint", *, owner: str = "flint", version: str = "v1"
) -> dict[str, Any]:
    return metadata(
        "flint-x",
        labels={**LABELS, names.LABEL_SERVICE_NAME: service},
        ownerReferences=[
            {
                "apiVersion": version,
                "kind": "Service",
                "name": owner,
                "uid": "s",
                "controller": True,
            }
        ],
    )


@pytest.mark.parametrize(
    "foreign",
    [
        slice_metadata("other", owner="other"),
        slice_metadata(owner="other"),
        slice_metadata(version="serving.knative.dev/v1"),
        metadata("flint-x", labels=LABELS),
        metadata("flint-x", labels={**LABELS, names.LABEL_SERVICE_NAME: "flint"}),
    ],
)
def test_a_slice_of_another_service_shows_no_endpoint(foreign: dict[str, Any]) -> None:
    pods = [{"targetRef": {"kind": "Pod", "name": "a"}}]

    assert parse.endpoints({"metadata": foreign, "endpoints": pods}) is None
    assert parse.endpoints({"metadata": slice_metadata(), "endpoints": pods}) is not None


def test_ready_endpoints_are_pods_that_are_not_said_to_be_unready() -> None:
    view = parse.endpoints(
        {
            "metadata": slice_metadata(),
            "endpoints": [
                {"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "b"}},
                {"targetRef": {"kind": "Pod", "name": "a"}},
                {"conditions": {"ready": False}, "targetRef": {"kind": "Pod", "name": "c"}},
                {"conditions": {"ready": True}, "targetRef": {"kind": "Node", "name": "d"}},
                {"conditions": {"ready": True}},
            ],
        }
    )

    assert view == EndpointsView(KEY, "flint-x", ("a", "b"))


def test_a_child_is_read_without_what_the_api_server_sets() -> None:
    view = parse.child(
        {
            "metadata": metadata(
                "flint",
                labels=LABELS,
                managedFields=[{"manager": "kindling"}],
                ownerReferences=[
                    {
                        "apiVersion": names.API_VERSION,
                        "kind": names.KIND,
                        "name": "flint",
                        "uid": "owner",
                        "controller": True,
                    }
                ],
            ),
            "spec": {"ports": []},
            "status": {"loadBalancer": {}},
        },
        SERVICE,
    )

    assert (view.owner, view.owner_uid) == (KEY, "owner")
    assert (view.ref.uid, view.ref.resource_version) == ("u", "5")
    assert set(view.manifest) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(view.manifest["metadata"]) == {"namespace", "name", "labels", "ownerReferences"}
    assert view.status == {}


@pytest.mark.parametrize(
    ("version", "kind", "ours"),
    [
        (names.API_VERSION, names.KIND, True),
        (f"{names.GROUP}/v1beta1", names.KIND, True),
        ("inference.networking.x-k8s.io/v1alpha2", names.KIND, False),
        ("v1", names.KIND, False),
        (names.API_VERSION, "Other", False),
        (None, None, False),
    ],
)
def test_an_owner_is_ours_by_group_and_kind_in_whatever_version(
    version: str | None, kind: str | None, ours: bool
) -> None:
    owner = {"apiVersion": version, "kind": kind, "name": "flint", "uid": "o", "controller": True}
    view = parse.child({"metadata": metadata(ownerReferences=[owner])}, SERVICE)

    assert (view.owner, view.owner_uid) == ((KEY, "o") if ours else (None, ""))


def test_a_deployment_tells_its_counts_and_why_it_makes_no_pods() -> None:
    view = parse.child(
        {
            "metadata": metadata("flint-1"),
            "status": {
                "replicas": 2,
                "readyReplicas": 1,
                "conditions": [
                    {"type": "Available", "status": "False", "message": "no"},
                    {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
                ],
            },
        },
        DEPLOYMENT,
    )

    assert view.status == {"replicas": 2, "readyReplicas": 1}
    assert view.failure == "exceeded quota"


def test_a_claim_is_read() -> None:
    body = {"metadata": metadata("weights"), "status": {"phase": "Bound"}}

    assert parse.claim(body) == ClaimView("ml", "weights", "Bound", terminating=False)


@pytest.mark.parametrize(
    "body", [{}, {"metadata": None}, {"metadata": {"labels": []}}, {"spec": 3}]
)
def test_an_odd_body_gives_an_empty_view(body: Any) -> None:
    assert nodes.node(body).name == ""
    assert parse.pod(body) is None
    assert parse.endpoints(body) is None
    assert parse.child(body, CONFIG_MAP).created == LONG_AGO


def test_an_object_without_metadata_of_its_own_is_no_entry() -> None:
    assert MODELS.entry({"metadata": {"name": 3}}) is None


def test_every_kind_that_render_makes_is_watched_with_our_selector() -> None:
    assert [watched.kind for watched in CHILDREN] == list(CHILD_KINDS)
    assert all(watched in WATCHED and watched.selector for watched in CHILDREN)
    assert CLAIM in {watched.kind for watched in WATCHED}


def test_a_child_wakes_its_owner_also_when_its_label_was_changed() -> None:
    (watched,) = (each for each in CHILDREN if each.kind == SERVICE)
    body = {
        "metadata": metadata(
            "flint",
            labels={**LABELS, names.LABEL_MODEL: "other"},
            ownerReferences=[
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.KIND,
                    "name": "flint",
                    "controller": True,
                }
            ],
        )
    }

    assert watched.wakes(body) == {KEY, Key("ml", "other")}
    assert PODS.wakes({"metadata": metadata("p", labels=LABELS)}) == {KEY}
    assert PODS.wakes({"metadata": metadata("p")}) == frozenset()


CREATED = {"manager": names.FIELD_MANAGER, "operation": "Update"}


@pytest.mark.parametrize(
    ("entries", "place"),
    [
        ([CREATED], 0),
        ([{"manager": "kubectl", "operation": "Update"}, CREATED], 1),
        ([{**CREATED, "operation": "Apply"}], None),
        ([{**CREATED, "subresource": "status"}], None),
        ([3], None),
        (3, None),
    ],
)
def test_the_place_of_our_creation_among_the_managers_is_read(
    entries: Any, place: int | None
) -> None:
    body = {"metadata": metadata("flint", managedFields=entries)}

    assert parse.child(body, CONFIG_MAP).created_entry == place
