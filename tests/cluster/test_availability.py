"""The endpoint keeps answering while parts of the cluster, or the operator, are away."""

import time

import pytest
from tests.support import install
from tests.support.fixtures import Engine
from tests.support.kube import AWAY, MODEL, NODE, POD, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.traffic import flowing
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

BACK_SECONDS = 120
"""A killed API server answered again after 8 s on a busy machine."""

DOWN_SECONDS = 15
"""Longer than the operator's Lease may go without a renewal (10 s in the chart's values)."""


@pytest.fixture
def url(shared_engine: Engine, kube: Kube) -> str:
    """The shared model's endpoint by its Service's address."""
    service = kube.have(names.SERVICE, shared_engine.name, shared_engine.namespace)
    return f"http://{service['spec']['clusterIP']}:8000/v1"


def engine_pod(kube: Kube, engine: Engine) -> Object:
    selector = f"{names.LABEL_MODEL}={engine.name}"
    (pod,) = kube.find(POD, engine.namespace, selector=selector)
    return pod


def untouched(before: Object, after: Object) -> bool:
    """Whether it is the same pod with the same containers, never restarted in between."""
    return bool(
        before["metadata"]["uid"] == after["metadata"]["uid"]
        and [each["containerID"] for each in before["status"]["containerStatuses"]]
        == [each["containerID"] for each in after["status"]["containerStatuses"]]
    )


@pytest.mark.parametrize(
    "component",
    ["kube-apiserver", "etcd", "kube-controller-manager", "kube-proxy", "kubelet", "containerd"],
)
def test_requests_are_served_while_a_component_is_killed(
    component: str, shared_engine: Engine, kube: Kube, cluster: Cluster, url: str
) -> None:
    before = engine_pod(kube, shared_engine)
    with flowing(cluster, url, shared_engine.name) as traffic:
        cluster.kill(component)
        until(
            f"the cluster to be whole again after {component} was killed",
            lambda: _node_ready(kube) and _ready(kube, shared_engine),
            seconds=BACK_SECONDS,
            say=kube.say,
            forgive=AWAY,
        )
    assert traffic.failures == []
    assert len(traffic.answers) >= 2
    assert untouched(before, engine_pod(kube, shared_engine))


def test_requests_are_served_while_the_api_server_is_down(
    shared_engine: Engine, kube: Kube, cluster: Cluster, url: str
) -> None:
    before = engine_pod(kube, shared_engine)
    with flowing(cluster, url, shared_engine.name) as traffic:
        cluster.hold("kube-apiserver")
        try:
            with pytest.raises(AWAY):
                kube.find(POD, shared_engine.namespace)
            time.sleep(DOWN_SECONDS)
        finally:
            cluster.release("kube-apiserver")
        until(
            "the API server to answer again and the model to be Ready",
            lambda: _ready(kube, shared_engine),
            seconds=BACK_SECONDS,
            say=kube.say,
            forgive=AWAY,
        )
    assert traffic.failures == []
    assert len(traffic.answers) >= DOWN_SECONDS
    install.wait_for_operator(kube)
    assert untouched(before, engine_pod(kube, shared_engine))


def test_requests_are_served_while_the_operator_is_killed(
    shared_engine: Engine, kube: Kube, cluster: Cluster, url: str
) -> None:
    before = engine_pod(kube, shared_engine)
    (operator,) = kube.find(POD, install.NAMESPACE, selector=install.OPERATOR_PODS)
    with flowing(cluster, url, shared_engine.name) as traffic:
        for pid in cluster.processes(operator):
            cluster.node("kill", "-KILL", str(pid))
        until(
            "the operator's container to be restarted",
            lambda: _restarted(kube, operator),
            seconds=BACK_SECONDS,
            say=kube.say,
        )
        install.wait_for_operator(kube)
    assert traffic.failures == []
    assert untouched(before, engine_pod(kube, shared_engine))


def _ready(kube: Kube, engine: Engine) -> bool:
    found = kube.have(MODEL, engine.name, engine.namespace)
    return conditions(found)["Ready"].status == "True"


def _node_ready(kube: Kube) -> bool:
    nodes = kube.find(NODE)
    return bool(nodes) and all(conditions(node)["Ready"].status == "True" for node in nodes)


def _restarted(kube: Kube, before: Object) -> bool:
    name = before["metadata"]["name"]
    found = kube.get(POD, name, install.NAMESPACE)
    if found is None:
        return True
    (was,), (now,) = before["status"]["containerStatuses"], found["status"]["containerStatuses"]
    return bool(now["restartCount"] > was["restartCount"])
