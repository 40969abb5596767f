"""A replica of two pods with the real vLLM: tensor ranks on CPU, one in each pod.

The planner never spreads a CPU model, so the plan is made by hand and stored as a revision while
the operator is away: stored plans are applied as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest
from tests.support import manifests
from tests.support.faultpage import Fault
from tests.support.fixtures import CLAIM_NAME, READY_SECONDS
from tests.support.install import NAMESPACE, OPERATOR, Images, wait_for_operator
from tests.support.kube import MODEL, NODE, POD, Kube, KubectlError, Object
from tests.support.onenode import Cluster
from tests.support.openai_access import client
from tests.support.shown import shown
from tests.support.waiting import until

from kindling_operator.apply.needs import stamped
from kindling_operator.installation import environment
from kindling_operator.model import names
from kindling_operator.model.layout import Layout
from kindling_operator.model.names import LEADER_WORKER_SET, Key
from kindling_operator.model.objects import ClaimView
from kindling_operator.model.parse import ParsedModel, parse
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.nodes import node as node_view
from kindling_operator.plan import plan
from kindling_operator.plan.argument import texts
from kindling_operator.plan.ranks import group_plan, layout_arguments
from kindling_operator.plan.revision import new_revision
from kindling_operator.render.revision import controller_revision

pytestmark = pytest.mark.cluster

NAME: Final = "pair"
LAYOUT: Final = Layout(tensor=2, nodes=2)
SELECTOR: Final = f"{names.LABEL_MODEL}={NAME}"
RESTART_SECONDS: Final = READY_SECONDS + 60
"""Both engines start again, after the kubelet's first back-off of ten seconds."""

CONNECT: Final = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""


def stored_plan(kube: Kube, images: Images, model: Object) -> Object:
    """The ControllerRevision of the model, with a plan of two pods."""
    parsed = parse(model)
    assert isinstance(parsed, ParsedModel)
    key = Key(model["metadata"]["namespace"], NAME)
    snapshot = Snapshot(
        now=datetime.now(UTC),
        synced=True,
        environment=environment(cuda_image="unused", cpu_image=images.runtime_cpu),
        models={key: parsed},
        nodes=tuple(node_view(node) for node in kube.find(NODE)),
        claims=(ClaimView(key.namespace, CLAIM_NAME, "Bound", terminating=False),),
    )
    chosen = plan(snapshot, key)
    assert chosen.current is not None, chosen.verdicts
    alone = chosen.current.plan
    two = msgspec.structs.replace(
        alone,
        summary="CPU in 2 pods, BF16, TP2, by hand",
        argv=(*alone.argv, *texts(layout_arguments(LAYOUT))),
        # vLLM 0.32 compiles the embedding of tensor ranks, and the image has no compiler.
        env={**alone.env, "TORCHDYNAMO_DISABLE": "1"},
        pod=msgspec.structs.replace(alone.pod, cpu_millis=250),
        group=group_plan(LAYOUT),
    )
    return stamped(controller_revision(parsed.metadata, new_revision(parsed, two)))


@pytest.fixture(scope="module")
def enforced(cluster: Cluster) -> Iterator[None]:
    """Network policies hold; afterwards everything passes again."""
    cluster.addon("netpol")
    cluster.release("netpol")
    yield
    cluster.hold("netpol")


@pytest.fixture(scope="module")
def pair(cluster: Cluster, kube: Kube, operator: Images, namespace: str, enforced: None) -> str:
    """The model with its two engines, Ready; the name of its LeaderWorkerSet."""
    cluster.addon("lws")
    deployment = f"deployment/{OPERATOR}"
    kube.kubectl("scale", deployment, "-n", NAMESPACE, "--replicas=0")
    kube.apply(manifests.tiny(NAME, namespace))
    revision = stored_plan(kube, operator, kube.have(MODEL, NAME, namespace))
    kube.kubectl(
        *("apply", "--server-side", f"--field-manager={names.FIELD_MANAGER}", "-f", "-"),
        stdin=json.dumps(revision),
    )
    kube.kubectl("scale", deployment, "-n", NAMESPACE, "--replicas=1")
    wait_for_operator(kube)
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    [group] = kube.find(LEADER_WORKER_SET, namespace, selector=SELECTOR)
    return str(group["metadata"]["name"])


def members(kube: Kube, namespace: str) -> list[Object]:
    """The pods of the group, the leader first."""
    found = kube.find(POD, namespace, selector=SELECTOR)
    return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_RANK]))


def restarts(pod: Object) -> int:
    [status] = pod["status"]["containerStatuses"]
    return int(status["restartCount"])


def test_two_pods_generate_tokens_as_one_replica(pair: str, kube: Kube, namespace: str) -> None:
    """Under enforced policies, so the ports that the kernel assigned were let through."""
    with client(kube, NAME, namespace) as api:
        answer = api.completions.create(model=NAME, prompt="1 2 3", max_tokens=8)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8

    status = kube.have(MODEL, NAME, namespace)["status"]
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)
    leader, follower = members(kube, namespace)
    assert [restarts(pod) for pod in (leader, follower)] == [0, 0]
    assert follower["metadata"]["labels"][names.LABEL_ROLE] == names.ROLE_WORKER


@pytest.mark.parametrize(
    ("host", "port"),
    [
        pytest.param("169.254.169.254", 80, id="the metadata address"),
        pytest.param("kubernetes.default.svc", 443, id="the API server"),
        pytest.param("kindling-operator-metrics.kindling-system.svc", 9090, id="another pod"),
    ],
)
def test_a_pod_of_the_group_reaches_nobody_else(
    pair: str, kube: Kube, namespace: str, host: str, port: int
) -> None:
    out = kube.kubectl(
        *("exec", "-n", namespace, f"{pair}-0", "--", "python3", "-c", CONNECT, host, str(port))
    )
    assert out.strip() == "TimeoutError"


def test_a_stranger_reaches_no_port_of_the_group_but_the_two(
    pair: str, kube: Kube, operator: Images, namespace: str
) -> None:
    address = members(kube, namespace)[0]["status"]["podIP"]
    ports = {8000: "connected", 9400: "connected", 9401: "TimeoutError", 29501: "TimeoutError"}
    script = CONNECT.replace("\n", "\n    ").replace("sys.argv[2]", "port")
    command = ["python3", "-c", f"import sys\nfor port in {tuple(ports)}:{script}", address]
    kube.apply(
        manifests.restricted_pod("stranger", namespace, image=operator.operator, command=command)
    )

    until(
        "the stranger to have tried",
        lambda: kube.have(POD, "stranger", namespace)["status"]["phase"] == "Succeeded",
        seconds=90,
        say=kube.say,
        show=lambda: kube.kubectl("logs", "stranger", "-n", namespace),
    )
    assert kube.kubectl("logs", "stranger", "-n", namespace).split() == list(ports.values())


def test_when_one_engine_dies_both_start_again_on_the_same_nodes(
    pair: str, cluster: Cluster, kube: Kube, namespace: str, fault: Fault
) -> None:
    before = {pod["metadata"]["uid"] for pod in members(kube, namespace)}
    victims = [
        pid
        for pid, name in cluster.processes(members(kube, namespace)[1]).items()
        if "VLLM" in name or "vllm" in name
    ]
    assert victims, cluster.processes(members(kube, namespace)[1])
    cluster.node("kill", "-KILL", *map(str, victims))
    follower = members(kube, namespace)[1]["metadata"]["name"]
    shown(kube, NAME, namespace, reason="EngineFailed", words=f"The engine of {follower} ").into(
        fault, "group of two pods: the follower's engine is killed"
    )

    until(
        "both containers to have started again",
        lambda: all(restarts(pod) >= 1 for pod in members(kube, namespace)),
        seconds=RESTART_SECONDS,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
    )
    kube.wait_condition(NAME, namespace, type="Ready", seconds=RESTART_SECONDS)
    after = members(kube, namespace)
    assert {pod["metadata"]["uid"] for pod in after} == before, "no pod was made again"
    assert all(restarts(pod) <= 2 for pod in after)
    with client(kube, NAME, namespace) as api:
        assert api.completions.create(model=NAME, prompt="1", max_tokens=1).usage is not None


def test_a_stream_that_runs_is_finished_when_the_model_is_deleted(
    pair: str, kube: Kube, namespace: str
) -> None:
    """The follower's engine is needed until the leader's last token."""
    with client(kube, NAME, namespace) as api:
        stream = api.completions.create(model=NAME, prompt="1", max_tokens=1500, stream=True)
        chunks = iter(stream)
        next(chunks)
        kube.delete(MODEL, NAME, namespace)
        until(
            "the pods to be told to leave",
            lambda: any("deletionTimestamp" in pod["metadata"] for pod in members(kube, namespace)),
            seconds=60,
            say=kube.say,
        )
        reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]

    assert reasons[-1] == "length"
    until(
        "the group to be gone",
        lambda: not members(kube, namespace),
        seconds=120,
        say=kube.say,
        forgive=(KubectlError,),
    )
