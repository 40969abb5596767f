"""One model from apply to delete, against the real API: what is made, repaired, and left alone."""

import time

import pytest
from tests.chaos.conftest import FIRST, SECOND, StartOperator
from tests.chaos.stories import NAME, QUIET_SECONDS, SECONDS, apply, made, ready, settle
from tests.support import audit, kubelet
from tests.support.apiserver import ControlPlane
from tests.support.kube import COMMON_KINDS, MODEL, Kube, Object, conditions, owner_uid
from tests.support.operator_process import OperatorProcess
from tests.support.waiting import until

from kindling_operator.model import names
from kindling_operator.model.names import DEPLOYMENT, SERVICE, Kind

pytestmark = pytest.mark.cluster


def test_a_model_becomes_its_children_and_its_status_tells_the_story(
    operator: OperatorProcess, kube: Kube, namespace: str
) -> None:
    apply(kube, namespace)
    made(kube, namespace)
    uid = kube.have(MODEL, NAME, namespace)["metadata"]["uid"]
    selector = f"{names.LABEL_MODEL}={NAME}"
    for kind in COMMON_KINDS:
        (found,) = kube.find(kind, namespace, selector=selector)
        assert owner_uid(found) == uid

    waiting = conditions(
        kube.wait_condition(NAME, namespace, type="Ready", status="False", seconds=SECONDS)
    )
    assert waiting["Accepted"].status == "True"
    assert set(waiting) == {
        "Accepted",
        "Scheduled",
        "IdentityReady",
        "CacheReady",
        "Progressing",
        "Available",
        "ScalingActive",
        "PlanCurrent",
        "Ready",
    }

    (pod,) = kubelet.serving_pods(kube, NAME, namespace, count=1)
    kubelet.run(kube, pod, ready=False)
    kube.wait_condition(NAME, namespace, type="Progressing", reason="Loading", seconds=SECONDS)
    kubelet.run(kube, pod, ready=True)
    found = kube.wait_condition(NAME, namespace, type="Ready", seconds=SECONDS)

    assert found["status"]["endpoint"] == f"http://{NAME}.{namespace}.svc:8000/v1"
    assert (found["status"]["replicas"], found["status"]["readyReplicas"]) == (1, 1)
    reasons = [event["reason"] for event in kube.events(namespace, NAME)]
    assert reasons[0] == "PlanChosen"
    assert "ReplicaReady" in reasons
    assert {event["type"] for event in kube.events(namespace, NAME)} == {"Normal"}


def test_a_restart_with_nothing_changed_writes_nothing(
    operator: OperatorProcess,
    start: StartOperator,
    plane: ControlPlane,
    kube: Kube,
    namespace: str,
) -> None:
    ready(kube, namespace)
    settle(plane, FIRST)
    assert operator.stop() == 0
    mark = audit.end(plane.audit_log)

    again = start()
    again.wait_leading(kube)
    until(
        "the new operator to have looked at the model",
        lambda: again.metric("kindling_reconcile_total") >= 1,
        seconds=SECONDS,
        forgive=(OSError,),
    )
    time.sleep(QUIET_SECONDS)

    assert audit.written(plane.audit_log, FIRST, start=mark) == []
    assert again.metric("kindling_apply_total") == 0


def test_a_released_lease_lets_the_next_operator_lead_at_once(
    start: StartOperator, kube: Kube
) -> None:
    long = {"KINDLING_LEASE_DURATION": "600s", "KINDLING_RENEW_DEADLINE": "500s"}
    first = start(settings=long)
    first.wait_leading(kube)
    second = start(SECOND)
    until("the second to look on", lambda: second.health()[0] == 200, seconds=SECONDS)
    assert not second.leads(kube)

    assert first.stop() == 0

    second.wait_leading(kube)


def test_deleting_the_model_removes_its_children_and_the_operator_deletes_none(
    operator: OperatorProcess, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    ready(kube, namespace)
    mark = settle(plane, FIRST)

    kube.delete(MODEL, NAME, namespace)
    kube.wait_gone(MODEL, NAME, namespace, seconds=5)
    kubelet.serving_pods(kube, NAME, namespace, count=0)
    kubelet.end_leaving(kube, namespace)
    kube.wait_childless(NAME, namespace, seconds=SECONDS)

    assert audit.written(plane.audit_log, FIRST, start=mark) == []


@pytest.mark.parametrize("kind", [SERVICE, DEPLOYMENT], ids=lambda kind: str(kind.kind))
def test_a_hand_that_changes_a_child_is_undone(
    operator: OperatorProcess, plane: ControlPlane, kube: Kube, namespace: str, kind: Kind
) -> None:
    apply(kube, namespace)
    made(kube, namespace)
    settle(plane, FIRST)
    (child,) = kube.find(kind, namespace, selector=f"{names.LABEL_MODEL}={NAME}")
    name = child["metadata"]["name"]
    changes: dict[Kind, Object] = {
        SERVICE: {"spec": {"selector": {names.LABEL_MODEL: "somebody-else"}}},
        DEPLOYMENT: {"spec": {"replicas": 7}},
    }
    change = changes[kind]

    kube.patch(kind, name, namespace, change)

    def wanted() -> bool:
        now = kube.have(kind, name, namespace)["spec"]
        return all(now[field] == child["spec"][field] for field in change["spec"])

    until(f"{kind.kind} {name} to be as before", wanted, seconds=SECONDS, every=0.1)


@pytest.mark.parametrize("kind", COMMON_KINDS, ids=lambda kind: str(kind.kind))
def test_a_child_that_somebody_deletes_comes_back(
    operator: OperatorProcess, plane: ControlPlane, kube: Kube, namespace: str, kind: Kind
) -> None:
    apply(kube, namespace)
    made(kube, namespace)
    settle(plane, FIRST)
    (child,) = kube.find(kind, namespace, selector=f"{names.LABEL_MODEL}={NAME}")
    name, uid = child["metadata"]["name"], child["metadata"]["uid"]

    kube.delete(kind, name, namespace)

    def back() -> bool:
        found = kube.get(kind, name, namespace)
        return found is not None and found["metadata"]["uid"] != uid

    until(f"{kind.kind} {name} to be back", back, seconds=SECONDS, every=0.1)


def test_scaling_changes_the_number_and_nothing_else(
    operator: OperatorProcess, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    ready(kube, namespace)
    mark = settle(plane, FIRST)
    (before,) = kubelet.serving_pods(kube, NAME, namespace, count=1)

    kube.kubectl("scale", f"im/{NAME}", "-n", namespace, "--replicas=2")
    pods = kubelet.serving_pods(kube, NAME, namespace, count=2)

    assert before["metadata"]["uid"] in [pod["metadata"]["uid"] for pod in pods]
    written = audit.written(plane.audit_log, FIRST, start=mark)
    assert {w.resource for w in written if w.resource not in {"events", "inferencemodels"}} == {
        "deployments"
    }


def test_a_spec_that_is_refused_leaves_what_runs_alone_and_says_why(
    operator: OperatorProcess, kube: Kube, namespace: str
) -> None:
    ready(kube, namespace)
    children = kube.children(NAME, namespace)

    kube.patch(MODEL, NAME, namespace, {"spec": {"serving": {"extraArgs": ["--max-model-len=1"]}}})
    found = kube.wait_condition(NAME, namespace, type="Accepted", status="False", seconds=SECONDS)

    assert kube.children(NAME, namespace) == children
    assert conditions(found)["Available"].status == "True"
    assert conditions(found)["Ready"].reason == conditions(found)["Accepted"].reason
    refused = [e for e in kube.events(namespace, NAME) if e["reason"] == "PlanRefused"]
    assert [event["type"] for event in refused] == ["Warning"]


def test_a_failing_engine_is_reported_with_its_own_words(
    operator: OperatorProcess, kube: Kube, namespace: str
) -> None:
    apply(kube, namespace)
    (pod,) = kubelet.serving_pods(kube, NAME, namespace, count=1)

    kubelet.end(kube, pod, code=70, message="vLLM ended with ValueError: no such layer.")
    found = kube.wait_condition(
        NAME, namespace, type="Available", status="False", reason="EngineFailed", seconds=SECONDS
    )

    message = conditions(found)["Available"].message
    assert "vLLM ended with ValueError: no such layer" in message
    assert pod["metadata"]["name"] in message
    assert conditions(found)["Ready"].message == message
