"""A change of spec where there is room for one replica, for two, and for none beside the old ones.

Replicas ask for so much CPU that the real scheduler has room for just as many as a test wants. The
tests share one model and run in order: each leaves it serving for the next.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from tests.support import manifests
from tests.support.fixtures import READY_SECONDS
from tests.support.install import Images
from tests.support.kube import MODEL, NODE, POD, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.phases import recorded
from tests.support.traffic import address, flowing
from tests.support.waiting import until

from kindling_operator.model import names
from kindling_operator.model.quantities import quantity_millis
from kindling_runtime.contract import RUNTIME_PORT, STATUS_PATH

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900, func_only=True)]

NAME: Final = "rolling"
SELECTOR: Final = f"{names.LABEL_MODEL}={NAME}"
NODE_NAME: Final = "onenode"
PLAN_MILLIS: Final = 500
"""What a plan on CPU asks for by itself; spec.runtime.resources comes on top."""
LOOK_SECONDS: Final = 0.3
QUIET_SECONDS: Final = 15
"""Three times as long as the operator waits between two looks at a rollout."""


@dataclass(slots=True)
class Seen:
    """What one look after the other found of the model's pods."""

    placed: list[int] = field(default_factory=list)
    homeless: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def free_millis(kube: Kube, operator: Images, namespace: str) -> int:
    """CPU of the real node that nobody asks for yet."""
    node = kube.have(NODE, NODE_NAME)
    asked = sum(
        quantity_millis(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for pod in kube.find(POD)
        if pod["spec"].get("nodeName") == NODE_NAME
        and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        for container in pod["spec"]["containers"]
    )
    return quantity_millis(node["status"]["allocatable"]["cpu"]) - asked


def spec(namespace: str, *, each: int, context: int, replicas: int = 1) -> Object:
    """The model with replicas that ask for `each` millicores."""
    return manifests.tiny(
        NAME,
        namespace,
        serving={"contextLength": context},
        replicas=replicas,
        runtime={"resources": {"cpu": f"{each - PLAN_MILLIS}m"}},
        rollout={"progressDeadline": "10m", "drainDeadline": "30s"},
    )


def pods(kube: Kube, namespace: str) -> list[Object]:
    found: list[Object] = kube.find(POD, namespace, selector=SELECTOR)
    return found


def revisions(kube: Kube, namespace: str) -> dict[str, int]:
    """Pods that are not leaving, by revision."""
    found: dict[str, int] = {}
    for pod in pods(kube, namespace):
        if "deletionTimestamp" not in pod["metadata"]:
            hash_ = pod["metadata"]["labels"][names.LABEL_REVISION]
            found[hash_] = found.get(hash_, 0) + 1
    return found


def changed(kube: Kube, namespace: str, old: str, *, replicas: int) -> str:
    """Wait until all replicas run another revision than `old`; its hash."""

    def look() -> str | None:
        found = conditions(kube.have(MODEL, NAME, namespace))
        there = revisions(kube, namespace)
        done = found["Progressing"].reason == "Complete" and old not in there
        return next(iter(there)) if done and list(there.values()) == [replicas] else None

    return until(
        f"{replicas} replicas of a revision after {old}",
        look,
        seconds=READY_SECONDS * replicas,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
    )


def answers(kube: Kube, namespace: str) -> list[int | None]:
    """How often each pod was asked for its models, as its runtime tells."""
    found: list[int | None] = []
    for pod in pods(kube, namespace):
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}:{RUNTIME_PORT}/proxy"
        status: dict[str, Any] = json.loads(kube.kubectl("get", "--raw", path + STATUS_PATH))
        found.append(status["modelsAnswers"])
    return found


def _holds(pod: Object) -> bool:
    """Whether it takes its share of the node, also to the scheduler."""
    ended = pod["status"].get("phase") in {"Succeeded", "Failed"}
    return bool(pod["spec"].get("nodeName")) and not ended


@contextmanager
def watched(kube: Kube, namespace: str) -> Iterator[Seen]:
    """Look at the pods again and again while the block runs."""
    seen, ended = Seen(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            found = pods(kube, namespace)
            seen.placed.append(sum(1 for pod in found if _holds(pod)))
            for pod in found:
                for each in pod["status"].get("conditions", ()):
                    if (each["type"], each["status"]) == ("PodScheduled", "False"):
                        seen.homeless.append(pod["metadata"]["name"])

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    try:
        yield seen
    finally:
        ended.set()
        looker.join(timeout=60)


@pytest.fixture(scope="module")
def first(kube: Kube, operator: Images, namespace: str, free_millis: int) -> str:
    """One replica on its half of the node; its revision."""
    assert free_millis >= 2 * PLAN_MILLIS, f"{free_millis}m free, too little for two"
    kube.apply(spec(namespace, each=free_millis // 2, context=1024))
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    (hash_,) = revisions(kube, namespace)
    return hash_


def test_with_one_spare_the_new_replica_comes_first_and_proves_itself(
    first: str, kube: Kube, cluster: Cluster, namespace: str, free_millis: int
) -> None:
    with traffic(kube, cluster, namespace) as flow, watched(kube, namespace) as seen:
        kube.apply(spec(namespace, each=free_millis // 2, context=1536))
        changed(kube, namespace, first, replicas=1)

    assert flow.failures == []
    assert max(seen.placed) == 2
    assert seen.homeless == []
    (count,) = answers(kube, namespace)
    assert count is not None, "the engine does not count, so nothing was proven"
    assert count >= 1


@pytest.mark.slow
def test_two_replicas_without_a_spare_change_one_after_the_other(
    first: str, kube: Kube, cluster: Cluster, namespace: str, free_millis: int
) -> None:
    (before,) = revisions(kube, namespace)
    kube.patch(MODEL, NAME, namespace, {"spec": {"replicas": 2}})
    until(
        "the second replica",
        lambda: kube.have(MODEL, NAME, namespace)["status"]["readyReplicas"] == 2,
        seconds=READY_SECONDS,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
    )
    with (
        traffic(kube, cluster, namespace) as flow,
        watched(kube, namespace) as seen,
        recorded(kube, NAME, namespace) as recording,
    ):
        kube.apply(spec(namespace, each=free_millis // 2, context=2048, replicas=2))
        changed(kube, namespace, before, replicas=2)

    assert flow.failures == []
    assert max(seen.placed) == 2, "more pods than there is room for"
    assert seen.homeless == [], "a pod was made before there was room for it"
    assert {each.status for each in recording.of("Available")} == {"True"}
    told = [each for each in recording.of("Scheduled") if each.reason == "WaitingForCapacity"]
    assert told
    assert "take the places of older ones in turn, as there is no room for all 2" in told[0].message


@pytest.mark.slow
def test_one_replica_without_a_spare_stays_until_a_downtime_is_accepted(
    first: str, kube: Kube, cluster: Cluster, namespace: str, free_millis: int
) -> None:
    most = free_millis - 50
    (before,) = revisions(kube, namespace)
    kube.patch(MODEL, NAME, namespace, {"spec": {"replicas": 1}})
    until(
        "one replica",
        lambda: revisions(kube, namespace) == {before: 1} and len(pods(kube, namespace)) == 1,
        seconds=120,
        say=kube.say,
    )
    with traffic(kube, cluster, namespace) as flow:
        kube.apply(spec(namespace, each=most, context=1024))
        found = kube.wait_condition(
            NAME,
            namespace,
            type="Scheduled",
            status="False",
            reason="WaitingForCapacity",
            seconds=60,
        )
        time.sleep(QUIET_SECONDS)
    message = conditions(found)["Scheduled"].message
    assert message.startswith(f"The new revision waits and {NAME}-{before} keeps its replicas: ")
    assert message.endswith(", or accept a downtime by setting spec.replicas to 0 and back to 1.")
    assert flow.failures == []
    assert revisions(kube, namespace) == {before: 1}

    kube.patch(MODEL, NAME, namespace, {"spec": {"replicas": 0}})
    until("no replica", lambda: not pods(kube, namespace), seconds=120, say=kube.say)
    kube.patch(MODEL, NAME, namespace, {"spec": {"replicas": 1}})
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    assert before not in revisions(kube, namespace)
    assert kube.have(MODEL, NAME, namespace)["status"]["plan"]["contextLength"] == 1024


@contextmanager
def traffic(kube: Kube, cluster: Cluster, namespace: str) -> Iterator[Any]:
    """Requests through the Service's address, one after the other."""
    with flowing(cluster, address(kube, NAME, namespace), NAME) as flow:
        yield flow
