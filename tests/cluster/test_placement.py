"""Where GPU replicas go: the real scheduler on 44 fake GPU nodes, against what the planner counts.

Each test has a pool of nodes of its own, so none waits for another's GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.support import fakenodes, manifests
from tests.support.install import Images
from tests.support.kube import MODEL, NODE, POD, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

POOL: Final = "test.kindling.dev/pool"
POOLS: Final = {"large": 32, "drivers": 2, "pair": 2, "one": 1, "cordon": 2, "loss": 3, "change": 2}
OLD_DRIVER: Final = "place-drivers-1"
_DRIVER_535: Final = {
    "nvidia.com/cuda.driver-version.full": "535.104.05",
    "nvidia.com/cuda.driver-version.major": "535",
}
GPUS: Final = 8
SECONDS: Final = 120


def _nodes() -> Iterator[Object]:
    for pool, count in POOLS.items():
        for number in range(count):
            name = f"place-{pool}-{number}"
            old = _DRIVER_535 if name == OLD_DRIVER else {}
            yield fakenodes.h200(name, {POOL: pool, **old})


@pytest.fixture(scope="module", autouse=True)
def nodes(cluster: Cluster, kube: Kube, operator: Images) -> Iterator[None]:
    found = list(_nodes())
    assert len(found) >= 40
    with fakenodes.fake_nodes(cluster, kube, found):
        yield


def flint(
    name: str, namespace: str, pool: str, *, gpus: int, replicas: int = 1, context: int = 32_768
) -> Object:
    """Flint with so many GPUs for each replica, on the nodes of one pool."""
    spec: Object = {
        "model": {"name": "flint", "weights": {"uri": "pvc://weights/flint"}},
        "serving": {"contextLength": context},
        "placement": {
            "nodeSelector": {POOL: pool},
            "tolerations": [fakenodes.TOLERATION],
            "parallelism": {"tensor": gpus},
        },
        "replicas": replicas,
    }
    return manifests.model(name, namespace, spec)


def job(name: str, namespace: str, node: str, *, gpus: int) -> Object:
    """Somebody else's pod, bound to a node."""
    pod = manifests.restricted_pod(name, namespace, image="job", command=["train"])
    [container] = pod["spec"]["containers"]
    container["resources"] = {"limits": {names.GPU_RESOURCE: str(gpus)}}
    pod["spec"] |= {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [fakenodes.TOLERATION],
    }
    return pod


def places(kube: Kube, namespace: str, name: str) -> list[str]:
    """The node of each pod of a model that is not leaving, "" while it has none."""
    found = kube.find(POD, namespace, selector=f"{names.LABEL_MODEL}={name}")
    staying = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
    return sorted(str(pod["spec"].get("nodeName", "")) for pod in staying)


def wait_places(kube: Kube, namespace: str, name: str, expected: list[str]) -> None:
    until(
        f"{name} on {expected}",
        lambda: places(kube, namespace, name) == expected,
        seconds=SECONDS,
        say=kube.say,
        show=lambda: f"{places(kube, namespace, name)}\n{kube.told(name, namespace)}",
    )


def waits(kube: Kube, namespace: str, name: str, reason: str = "") -> str:
    """What a model says it waits for."""
    found = kube.wait_condition(
        name, namespace, type="Scheduled", status="False", reason=reason, seconds=SECONDS
    )
    return conditions(found)["Scheduled"].message


def test_forty_replicas_fill_no_node_beyond_its_gpus(kube: Kube, namespace: str) -> None:
    kube.apply(flint("many", namespace, "large", gpus=4, replicas=40))
    found = kube.wait_condition("many", namespace, type="Scheduled", seconds=SECONDS)
    until(
        "40 pods with a node",
        lambda: sum(map(bool, places(kube, namespace, "many"))) == 40,
        seconds=SECONDS,
        say=kube.say,
    )

    held = Counter(places(kube, namespace, "many"))
    assert all(node.startswith("place-large-") for node in held)
    assert max(held.values()) * 4 <= GPUS
    assert found["status"]["plan"]["gpu"]["perReplica"] == 4
    kube.delete(MODEL, "many", namespace)


def test_no_replica_lands_on_a_node_with_an_old_driver(kube: Kube, namespace: str) -> None:
    """The scheduler prefers the emptiest node; the product alone would let it."""
    kube.apply(flint("drivers", namespace, "drivers", gpus=1, replicas=GPUS + 1))

    wait_places(kube, namespace, "drivers", ["", *["place-drivers-0"] * GPUS])
    message = waits(kube, namespace, "drivers", "InsufficientGPU")
    assert "best node place-drivers-0 has 0 of 8 free" in message


def test_the_older_model_comes_first_and_the_younger_says_who_holds_the_gpus(
    kube: Kube, namespace: str
) -> None:
    kube.apply(flint("older", namespace, "pair", gpus=8, replicas=2))
    wait_places(kube, namespace, "older", ["place-pair-0", "place-pair-1"])
    kube.apply(flint("younger", namespace, "pair", gpus=8))

    message = waits(kube, namespace, "younger", "InsufficientGPU")
    assert message.startswith("Needs 8 x NVIDIA-H200 in one node; best node place-pair-")
    assert f"has 0 of 8 free, 8 held by {namespace}/older: free 8 or add a node." in message
    assert places(kube, namespace, "younger") == []

    kube.patch(MODEL, "older", namespace, {"spec": {"replicas": 1}})
    kube.wait_condition("younger", namespace, type="Scheduled", seconds=SECONDS)
    until(
        "one replica of each",
        lambda: (
            sorted(places(kube, namespace, "older") + places(kube, namespace, "younger"))
            == ["place-pair-0", "place-pair-1"]
        ),
        seconds=SECONDS,
        say=kube.say,
    )


def test_the_gpus_of_others_count(kube: Kube, namespace: str) -> None:
    kube.apply(job("train", namespace, "place-one-0", gpus=6))
    until(
        "the job to have its node",
        lambda: kube.have(POD, "train", namespace)["spec"].get("nodeName"),
        seconds=SECONDS,
        say=kube.say,
    )
    kube.apply(flint("beside", namespace, "one", gpus=4))

    assert waits(kube, namespace, "beside", "InsufficientGPU") == (
        "Needs 4 x NVIDIA-H200 in one node; best node place-one-0 has 2 of 8 free, 6 held by"
        f" {namespace}/train: free 2 or add a node."
    )

    kube.kubectl("delete", "pod", "train", "-n", namespace, "--wait=false")
    wait_places(kube, namespace, "beside", ["place-one-0"])


def test_a_cordoned_node_gets_no_replica_until_it_is_open_again(kube: Kube, namespace: str) -> None:
    kube.kubectl("cordon", "place-cordon-0")
    kube.apply(flint("cordon", namespace, "cordon", gpus=8, replicas=2))

    wait_places(kube, namespace, "cordon", ["", "place-cordon-1"])
    assert "best node place-cordon-1 has 0 of 8 free" in waits(kube, namespace, "cordon")

    kube.kubectl("uncordon", "place-cordon-0")
    wait_places(kube, namespace, "cordon", ["place-cordon-0", "place-cordon-1"])
    kube.wait_condition("cordon", namespace, type="Scheduled", seconds=SECONDS)


def test_the_replica_of_a_lost_node_moves_to_another(kube: Kube, namespace: str) -> None:
    kube.apply(flint("loss", namespace, "loss", gpus=8, replicas=2))
    until(
        "two nodes",
        lambda: all(found := places(kube, namespace, "loss")) and len(found) == 2,
        seconds=SECONDS,
        say=kube.say,
    )
    lost, stays = places(kube, namespace, "loss")
    every = {f"place-loss-{number}" for number in range(POOLS["loss"])}
    [spare] = every - {lost, stays}
    placed = kube.wait_condition("loss", namespace, type="Scheduled", seconds=SECONDS)
    before = placed["status"]["plan"]["revision"]

    fakenodes.remove(kube, lost)

    wait_places(kube, namespace, "loss", sorted([spare, stays]))
    found = kube.wait_condition("loss", namespace, type="Scheduled", seconds=SECONDS)
    assert found["status"]["plan"]["revision"] == before


def test_a_change_takes_the_spare_gpus_and_waits_where_there_are_none(
    kube: Kube, namespace: str
) -> None:
    """No program answers on a fake node, so no new replica proves itself and no old one leaves."""
    kube.apply(flint("change", namespace, "change", gpus=8))
    until("a node", lambda: all(places(kube, namespace, "change")), seconds=SECONDS, say=kube.say)
    first = _revisions(kube, namespace)

    kube.apply(flint("change", namespace, "change", gpus=8, context=65_536))
    wait_places(kube, namespace, "change", ["place-change-0", "place-change-1"])
    assert first < _revisions(kube, namespace)

    kube.kubectl("cordon", "place-change-0", "place-change-1")
    try:
        kube.apply(flint("crowded", namespace, "change", gpus=8))
        found = kube.wait_condition(
            "crowded",
            namespace,
            type="Accepted",
            status="False",
            reason="NoSupportedGPU",
            seconds=SECONDS,
        )
        assert "16 x NVIDIA-H200 (sm90) on cordoned nodes" in conditions(found)["Accepted"].message
        assert kube.children("crowded", namespace) == []
    finally:
        kube.kubectl("uncordon", "place-change-0", "place-change-1")
    assert f"held by {namespace}/change" in waits(kube, namespace, "crowded", "InsufficientGPU")


def _revisions(kube: Kube, namespace: str) -> set[str]:
    found = kube.find(POD, namespace, selector=f"{names.LABEL_MODEL}=change")
    return {pod["metadata"]["labels"][names.LABEL_REVISION] for pod in found}


def test_the_sum_of_all_pods_is_within_every_node(kube: Kube, namespace: str) -> None:
    """After all that came before: what the scheduler bound, by node."""
    held: Counter[str] = Counter()
    for pod in kube.find(POD, namespace):
        held[str(pod["spec"].get("nodeName", ""))] += _gpus(pod)
    del held[""]

    assert held
    assert {node: gpus for node, gpus in held.items() if gpus > GPUS} == {}
    assert set(held) <= {node["metadata"]["name"] for node in kube.find(NODE)}


def _gpus(pod: Any) -> int:
    [container] = pod["spec"]["containers"]
    return int(container["resources"].get("limits", {}).get(names.GPU_RESOURCE, 0))
