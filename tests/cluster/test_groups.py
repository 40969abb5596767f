"""Replicas of several pods: the real LeaderWorkerSet controller, the real scheduler, fake GPUs.

The order matters: first a cluster without the API, then the API is installed and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.support import fakenodes, manifests
from tests.support.install import NAMESPACE, OPERATOR, OPERATOR_PODS, Images, wait_for_operator
from tests.support.kube import CRD, MODEL, POD, Kube, KubectlError, Object, conditions
from tests.support.onenode import Cluster, run
from tests.support.waiting import until

from kindling_operator.model import names
from kindling_operator.model.names import LEADER_WORKER_SET, Kind

pytestmark = pytest.mark.cluster

NAME: Final = "big"
SELECTOR: Final = f"{names.LABEL_MODEL}={NAME}"
NODES: Final = tuple(f"groups-{number}" for number in range(4))
CRD_NAME: Final = f"{LEADER_WORKER_SET.plural}.{LEADER_WORKER_SET.group}"
STATEFUL_SET: Final = Kind("apps/v1", "StatefulSet", "statefulsets")
NOTICE_SECONDS: Final = 90
"""Half a minute between two looks at the API, then a start of the operator."""
SECONDS: Final = 120


def inkling(namespace: str, *, replicas: int = 1) -> Object:
    """Inkling in BF16: each replica takes two nodes of eight H200, and the engine has no server
    on the second."""
    spec: Object = {
        "model": {"name": "inkling", "weights": {"uri": "pvc://weights/inkling"}},
        "serving": {"speculation": {"mode": "Disabled"}},
        "placement": {
            "tolerations": [fakenodes.TOLERATION],
            "parallelism": {"tensor": 8, "pipeline": 2},
        },
        "replicas": replicas,
    }
    return manifests.model(NAME, namespace, spec)


@pytest.fixture(scope="module")
def nodes(cluster: Cluster, kube: Kube) -> Iterator[None]:
    with fakenodes.fake_nodes(cluster, kube, [fakenodes.h200(name) for name in NODES]):
        yield


@pytest.fixture(scope="module")
def waiting(kube: Kube, operator: Images, namespace: str, nodes: None) -> Object:
    """The model on a cluster whose API server does not know LeaderWorkerSet."""
    run(
        *("helm", "uninstall", "lws", "--namespace=lws-system", "--ignore-not-found", "--wait"),
        seconds=SECONDS,
        env=kube.environment,
    )
    kube.delete(CRD, CRD_NAME)
    kube.wait_gone(CRD, CRD_NAME, seconds=SECONDS)
    # It would notice within half a minute; what it does until then is not the matter here.
    kube.kubectl("rollout", "restart", f"deployment/{OPERATOR}", "-n", NAMESPACE)
    wait_for_operator(kube)
    kube.apply(inkling(namespace))
    return kube.wait_condition(
        NAME,
        namespace,
        type="Scheduled",
        status="False",
        reason="LeaderWorkerSetMissing",
        seconds=NOTICE_SECONDS,
    )


@pytest.fixture(scope="module")
def grouped(waiting: Object, cluster: Cluster, kube: Kube, namespace: str) -> Object:
    """The same model once the API is there, and its only group."""
    cluster.addon("lws")
    return group(kube, namespace)


def groups(kube: Kube, namespace: str) -> list[Object]:
    """The LeaderWorkerSets of the model by name."""
    found = kube.find(LEADER_WORKER_SET, namespace, selector=SELECTOR)
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def group(kube: Kube, namespace: str) -> Object:
    """The only group, once the controller calls it ready."""

    def look() -> Object | None:
        found = groups(kube, namespace)
        ready = [each for each in found if each.get("status", {}).get("readyReplicas")]
        return ready[0] if len(found) == len(ready) == 1 else None

    return until(
        "one ready group",
        look,
        seconds=NOTICE_SECONDS + SECONDS,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
        forgive=(KubectlError,),
    )


def members(kube: Kube, namespace: str, name: str) -> list[Object]:
    """The pods of a group, the leader first."""
    found = kube.find(POD, namespace, selector=f"{names.LABEL_GROUP}={name}")
    return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_RANK]))


def test_nothing_is_made_where_the_api_is_missing(
    waiting: Object, kube: Kube, namespace: str
) -> None:
    told = conditions(waiting)

    assert told["Accepted"].status == "True"
    assert told["Scheduled"].message == (
        "One replica spans 2 nodes, which needs the LeaderWorkerSet API, and the cluster does not"
        " have it: install LeaderWorkerSet v0.8 or later."
    )
    assert kube.children(NAME, namespace) == []
    wait_for_operator(kube)
    for pod in kube.find(POD, NAMESPACE, selector=OPERATOR_PODS):
        [status] = pod["status"]["containerStatuses"]
        assert "waiting" not in status["state"], f"{OPERATOR} does not run: {status['state']}"


def test_the_api_is_noticed_when_it_is_installed_later(
    grouped: Object, kube: Kube, namespace: str
) -> None:
    leader, follower = members(kube, namespace, grouped["metadata"]["name"])

    assert leader["spec"]["nodeName"] != follower["spec"]["nodeName"]
    assert leader["metadata"]["labels"][names.LABEL_ROLE] == names.ROLE_LEADER
    assert follower["metadata"]["labels"][names.LABEL_ROLE] == names.ROLE_WORKER
    told = kube.wait_condition(NAME, namespace, type="Scheduled", seconds=SECONDS)
    assert conditions(told)["Scheduled"].message == "1 of 1 replicas have 2 nodes."


def test_each_pod_knows_its_rank_and_its_leader(
    grouped: Object, kube: Kube, namespace: str
) -> None:
    name = grouped["metadata"]["name"]
    for rank, pod in enumerate(members(kube, namespace, name)):
        [container] = pod["spec"]["containers"]
        told = {each["name"]: each.get("value") for each in container["env"]}
        assert told["LWS_WORKER_INDEX"] == str(rank)
        assert told["LWS_LEADER_ADDRESS"] == f"{name}-0.{name}.{namespace}"


def test_only_the_leader_is_behind_the_service(grouped: Object, kube: Kube, namespace: str) -> None:
    until(
        "the leader alone to be among the endpoints",
        lambda: endpoints(kube, namespace) == [f"{grouped['metadata']['name']}-0"],
        seconds=SECONDS,
        say=kube.say,
        show=lambda: str(endpoints(kube, namespace)),
    )


def endpoints(kube: Kube, namespace: str) -> list[str]:
    out = kube.kubectl(
        "get",
        "endpointslices",
        "-n",
        namespace,
        f"-lkubernetes.io/service-name={NAME}",
        "-o",
        "jsonpath={range .items[*].endpoints[*]}{.targetRef.name}{'\\n'}{end}",
    )
    return sorted(out.split())


def test_what_the_controller_owns_is_left_to_it(
    grouped: Object, kube: Kube, namespace: str
) -> None:
    owned = kube.find(STATEFUL_SET, namespace)
    assert owned, "the controller makes StatefulSets"
    for each in owned:
        managers = {entry["manager"] for entry in each["metadata"]["managedFields"]}
        assert names.FIELD_MANAGER not in managers


def test_replicas_are_groups_and_each_is_an_object(
    grouped: Object, kube: Kube, namespace: str
) -> None:
    first = grouped["metadata"]["name"]
    kube.kubectl("scale", f"im/{NAME}", "-n", namespace, "--replicas=2")

    def two() -> bool:
        found = groups(kube, namespace)
        return [bool(g.get("status", {}).get("readyReplicas")) for g in found] == [True, True]

    until("two ready groups", two, seconds=SECONDS, say=kube.say, show=lambda: str(told()))

    def told() -> object:
        return kube.have(MODEL, NAME, namespace).get("status", {}).get("replicas")

    until("status to count groups", lambda: told() == 2, seconds=SECONDS, say=kube.say)
    # The first loses a node and so its worth: LeaderWorkerSet would always take the last.
    lost = str(members(kube, namespace, first)[1]["spec"]["nodeName"])
    fakenodes.remove(kube, lost)
    try:
        kube.wait_condition(NAME, namespace, type="Scheduled", status="False", seconds=SECONDS)
        kube.kubectl("scale", f"im/{NAME}", "-n", namespace, "--replicas=1")
        [left] = until(
            "one group to be left",
            lambda: found if len(found := groups(kube, namespace)) == 1 else None,
            seconds=SECONDS,
            say=kube.say,
        )
    finally:
        fakenodes.add(kube, [fakenodes.h200(lost)])
    assert left["metadata"]["name"] != first


def test_half_a_group_is_told_and_whole_again_when_the_node_is_back(
    grouped: Object, kube: Kube, namespace: str
) -> None:
    [name] = [each["metadata"]["name"] for each in groups(kube, namespace)]
    used = [pod["spec"]["nodeName"] for pod in members(kube, namespace, name)]
    spare = [node for node in NODES if node not in used]
    fakenodes.remove(kube, *spare, used[1])
    try:
        told = kube.wait_condition(
            NAME, namespace, type="Scheduled", status="False", seconds=SECONDS
        )
        message = conditions(told)["Scheduled"].message
        assert message.startswith("Replica ")
        assert ": 1 of 2 pods have a node, and " in message
        assert "or it gives its GPUs back at " in message
    finally:
        fakenodes.add(kube, [fakenodes.h200(node) for node in (*spare, used[1])])

    kube.wait_condition(NAME, namespace, type="Scheduled", seconds=SECONDS)


def test_a_model_takes_its_groups_with_it(grouped: Object, kube: Kube, namespace: str) -> None:
    kube.delete(MODEL, NAME, namespace)

    kube.wait_childless(NAME, namespace, seconds=SECONDS)
    until(
        "nothing of the groups to be left",
        lambda: not groups(kube, namespace) and not kube.find(STATEFUL_SET, namespace),
        seconds=SECONDS,
        say=kube.say,
    )
