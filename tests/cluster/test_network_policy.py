"""The operator and the serving pods under their NetworkPolicies, with an engine that enforces them.

The engine judges new connections, so the operator is started anew under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.support import manifests
from tests.support.fixtures import Engine
from tests.support.install import NAMESPACE, OPERATOR, Images, wait_for_operator
from tests.support.kube import POD, Kube, KubectlError, Object
from tests.support.onenode import Cluster
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

CONNECT_SECONDS: Final = 5
CONNECT: Final = f"""
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout={CONNECT_SECONDS}).close()
print("connected")
"""


@pytest.fixture(scope="module")
def enforced(cluster: Cluster, kube: Kube, operator: Images) -> Iterator[None]:
    """The policy engine at work; held down again afterwards, when it lets everything pass."""
    cluster.addon("netpol")
    cluster.release("netpol")
    yield
    cluster.hold("netpol")


def _connect(kube: Kube, host: str, port: int) -> str:
    """From the operator's pod; raises KubectlError with Python's error."""
    pod = f"deployment/{OPERATOR}"
    call = ("python", "-c", CONNECT, host, str(port))
    return kube.kubectl("exec", "-n", NAMESPACE, pod, "--", *call).strip()


def test_the_operator_works_within_its_policy(
    enforced: None, kube: Kube, shared_engine: Engine
) -> None:
    kube.kubectl("rollout", "restart", f"deployment/{OPERATOR}", "-n", NAMESPACE)
    wait_for_operator(kube)

    kube.wait_condition(shared_engine.name, shared_engine.namespace, type="Ready", seconds=60)
    assert _connect(kube, "kubernetes.default.svc.cluster.local", 443) == "connected"


def _pod(kube: Kube, engine: Engine) -> Object:
    (pod,) = kube.find(POD, engine.namespace, selector=f"{names.LABEL_MODEL}={engine.name}")
    return pod


def test_it_reaches_the_serving_pods_and_nothing_else_of_them(
    enforced: None, kube: Kube, shared_engine: Engine
) -> None:
    """What nobody listens on is refused at once where a connection is let through."""
    address = _pod(kube, shared_engine)["status"]["podIP"]

    assert _connect(kube, address, 8000) == "connected"
    with pytest.raises(KubectlError, match="timed out"):
        _connect(kube, address, 9401)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        pytest.param("169.254.169.254", 80, id="the metadata address"),
        pytest.param("kubernetes.default.svc", 443, id="the API server"),
        pytest.param(f"{OPERATOR}-metrics.{NAMESPACE}.svc", 9090, id="another pod"),
    ],
)
def test_an_engine_reaches_no_address_that_a_request_may_name(
    enforced: None, kube: Kube, shared_engine: Engine, host: str, port: int
) -> None:
    pod = _pod(kube, shared_engine)["metadata"]["name"]
    call = ("python3", "-c", CONNECT, host, str(port))

    with pytest.raises(KubectlError, match="timed out"):
        kube.kubectl("exec", "-n", shared_engine.namespace, pod, "--", *call)


def test_a_pod_of_another_namespace_reads_the_metrics(
    enforced: None, kube: Kube, namespace: str, operator: Images
) -> None:
    host = f"{OPERATOR}-metrics.{NAMESPACE}.svc.cluster.local"
    command = ["python", "-c", CONNECT, host, "9090"]
    kube.apply(
        manifests.restricted_pod("scraper", namespace, image=operator.operator, command=command)
    )

    until(
        "the scraper to have connected",
        lambda: kube.have(POD, "scraper", namespace)["status"]["phase"] == "Succeeded",
        seconds=60,
        say=kube.say,
        show=lambda: kube.kubectl("logs", "scraper", "-n", namespace),
    )
