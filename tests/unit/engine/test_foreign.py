"""Pods of others, counted as the scheduler counts them, and kept as sums."""

from typing import Any

import msgspec
import pytest

from kindling_operator.model.objects import NodeUse
from kindling_operator.observe.foreign import ForeignPods
from kindling_operator.observe.requests import PodBody, Requests, requests_of

GIB = 1 << 30


def container(*, gpus: int = 0, cpu: str = "0", memory: str = "0", **more: Any) -> dict[str, Any]:
    wanted = {"cpu": cpu, "memory": memory, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {"name": "c", "resources": {"requests": wanted}, **more}


def body(uid: str = "a", *, node: str = "one", phase: str = "Running", **spec: Any) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": f"pod-{uid}", "namespace": "other", "uid": uid},
            "spec": {"nodeName": node, "containers": [container(cpu="1", memory="1Gi")], **spec},
            "status": {"phase": phase},
        }
    )


REQUESTS = {
    "the sum of the containers": (
        {"containers": [container(cpu="500m"), container(cpu="1", memory="1Gi")]},
        Requests(0, 1500, GIB),
    ),
    "an init container that needs more than they": (
        {"initContainers": [container(gpus=2, cpu="4")], "containers": [container(cpu="1")]},
        Requests(2, 4000),
    ),
    "a sidecar beside them": (
        {
            "initContainers": [container(cpu="1", restartPolicy="Always"), container(cpu="1")],
            "containers": [container(cpu="3")],
        },
        Requests(0, 4000),
    ),
    "GPUs that stand as a limit alone": (
        {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        Requests(8),
    ),
    "the pod's own requests in their place": (
        {"containers": [container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "6"}}},
        Requests(0, 6000, GIB),
    ),
    "the overhead of a sandbox on top": (
        {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Gi"}},
        Requests(0, 1250, GIB),
    ),
    "a quantity that cannot be read as nothing": (
        {"containers": [container(cpu="many", memory="1Gi")]},
        Requests(0, 0, GIB),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_a_pod_takes(spec: dict[str, Any], expected: Requests) -> None:
    pod = msgspec.json.decode(body(**spec), type=PodBody)

    assert requests_of(pod) == expected


def test_pods_without_gpus_are_sums_by_node() -> None:
    found = ForeignPods()
    for uid, node in (("a", "one"), ("b", "one"), ("c", "two")):
        assert found.put(body(uid, node=node))

    assert found.used == {
        "one": NodeUse(cpu_millis=2000, memory=2 * GIB, pods=2),
        "two": NodeUse(cpu_millis=1000, memory=GIB, pods=1),
    }
    assert found.holders == ()


def test_a_pod_that_holds_gpus_is_known_by_name() -> None:
    found = ForeignPods()
    found.put(body("a", containers=[container(gpus=4, cpu="2")]))

    (holder,) = found.holders
    assert (holder.namespace, holder.name, holder.node, holder.gpus) == ("other", "pod-a", "one", 4)
    assert found.used == {}


def test_what_a_pod_took_is_given_back_when_it_moves_ends_or_goes() -> None:
    found = ForeignPods()
    found.put(body("a"))
    found.put(body("b", containers=[container(gpus=1)]))
    found.put(body("a", node="two"))
    assert set(found.used) == {"two"}

    assert found.put(body("a", node="two", phase="Succeeded"))
    assert found.drop(body("b"))
    assert (found.used, found.holders, len(found)) == ({}, (), 0)


def test_an_event_that_changes_nothing_is_no_change() -> None:
    found = ForeignPods()
    found.put(body("a"))
    found.put(body("g", containers=[container(gpus=1)]))
    before = found.uses, found.holds

    assert not found.put(body("a"))
    assert not found.put(body("g", containers=[container(gpus=1)]))
    assert not found.drop(body("unknown"))
    assert not found.put(body("w", node="", phase="Pending"))
    assert (found.uses, found.holds) == before


def test_a_pod_that_awaits_a_gpu_is_known_and_takes_nothing_of_a_node() -> None:
    found = ForeignPods()
    found.put(body("a", node="", phase="Pending", containers=[container(gpus=1)]))

    assert [pod.node for pod in found.holders] == [""]


@pytest.mark.parametrize("broken", [b"{}", b"not json", b'{"metadata": 3, "spec": {}}'])
def test_what_cannot_be_read_takes_nothing(broken: bytes) -> None:
    found = ForeignPods()

    assert not found.put(broken)
    assert not found.drop(broken)
