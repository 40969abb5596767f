"""The endpoint keeps answering while parts of the cluster, or the operator, are away."""

import time

import pytest
from tests.support import audit, faults
from tests.support.fixtures import Engine
from tests.support.install import OPERATOR_USER
from tests.support.kube import AWAY, POD, Kube, Object
from tests.support.onenode import Cluster
from tests.support.traffic import address, flowing

pytestmark = pytest.mark.cluster

ENOUGH = 10
"""Requests after a fault, 4 s and more: long enough for what it breaks to show."""

DOWN_SECONDS = 15
"""Longer than the operator's Lease may go without a renewal (10 s in the chart's values)."""


@pytest.fixture
def url(shared_engine: Engine, kube: Kube) -> str:
    """The shared model's endpoint by its Service's address."""
    return address(kube, shared_engine.name, shared_engine.namespace)


def pod_of(kube: Kube, engine: Engine) -> Object:
    return faults.serving_pod(kube, engine.name, engine.namespace)


def untouched(before: Object, after: Object) -> bool:
    """Whether it is the same pod with the same containers, never restarted in between."""
    return bool(
        before["metadata"]["uid"] == after["metadata"]["uid"]
        and [each["containerID"] for each in before["status"]["containerStatuses"]]
        == [each["containerID"] for each in after["status"]["containerStatuses"]]
    )


@pytest.mark.parametrize("component", faults.COMPONENTS)
def test_requests_are_served_while_a_component_is_killed(
    component: str, shared_engine: Engine, kube: Kube, cluster: Cluster, url: str
) -> None:
    before = pod_of(kube, shared_engine)
    with flowing(cluster, url, shared_engine.name) as traffic:
        cluster.kill(component)
        traffic.wait_for(ENOUGH)
        faults.wait_whole(kube, shared_engine.name, shared_engine.namespace, after=component)
    assert traffic.failures == []
    assert untouched(before, pod_of(kube, shared_engine))


def test_requests_are_served_while_the_api_server_is_down(
    shared_engine: Engine, kube: Kube, cluster: Cluster, url: str
) -> None:
    before = pod_of(kube, shared_engine)
    with flowing(cluster, url, shared_engine.name) as traffic:
        cluster.hold("kube-apiserver")
        try:
            with pytest.raises(AWAY):
                kube.find(POD, shared_engine.namespace)
            time.sleep(DOWN_SECONDS)
        finally:
            cluster.release("kube-apiserver")
        faults.wait_whole(
            kube, shared_engine.name, shared_engine.namespace, after="the API server's return"
        )
    assert traffic.failures == []
    assert len(traffic.answers) >= DOWN_SECONDS
    assert untouched(before, pod_of(kube, shared_engine))


def test_requests_are_served_while_the_operator_is_killed(
    shared_engine: Engine, kube: Kube, cluster: Cluster, url: str
) -> None:
    before, mark = pod_of(kube, shared_engine), audit.end(cluster.audit_log)
    with flowing(cluster, url, shared_engine.name) as traffic:
        faults.kill_operator(cluster, kube)
        traffic.wait_for(ENOUGH)
        faults.wait_whole(
            kube, shared_engine.name, shared_engine.namespace, after="the operator's end"
        )
    assert traffic.failures == []
    assert untouched(before, pod_of(kube, shared_engine))
    written = audit.written(cluster.audit_log, OPERATOR_USER, start=mark)
    assert written == [], "a restart with nothing changed writes nothing"
