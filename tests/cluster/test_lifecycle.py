"""One model from its first apply over a change of spec and two kinds of death to its deletion.

The tests of this file share one model and run in order: each leaves it serving for the next.
"""

import time

import pytest
from tests.support import faults, manifests
from tests.support.faultpage import Fault
from tests.support.fixtures import GONE_SECONDS, READY_SECONDS, Engine
from tests.support.install import Images
from tests.support.kube import MODEL, POD, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.openai_access import client
from tests.support.phases import recorded
from tests.support.shown import shown
from tests.support.traffic import address, flowing
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

NAME = "moving"
STREAM_TOKENS = 3000
"""About 9 s at 3 ms a token: SIGTERM reaches the engine 5 s after the pod was told to end."""


def spec(namespace: str, *, context: int) -> Object:
    return manifests.tiny(
        NAME,
        namespace,
        serving={"contextLength": context},
        rollout={"progressDeadline": "10m", "drainDeadline": "60s"},
    )


@pytest.fixture(scope="module")
def moving(namespace: str, kube: Kube, operator: Images) -> Engine:
    """The model of this file, served."""
    with recorded(kube, NAME, namespace) as recording:
        kube.apply(spec(namespace, context=3072))
        kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    return Engine(NAME, namespace, recording)


def only_pod(kube: Kube, namespace: str) -> Object:
    return faults.serving_pod(kube, NAME, namespace)


def test_a_change_of_spec_rolls_out_without_a_failed_request(
    moving: Engine, kube: Kube, cluster: Cluster
) -> None:
    namespace = moving.namespace
    old = only_pod(kube, namespace)
    url = address(kube, NAME, namespace)
    with flowing(cluster, url, NAME) as traffic, recorded(kube, NAME, namespace) as recording:
        kube.apply(spec(namespace, context=4096))
        until(
            "the old pod to be gone and the new one to serve",
            lambda: _replaced(kube, namespace, old),
            seconds=READY_SECONDS,
            say=kube.say,
            show=lambda: kube.told(NAME, namespace),
        )
        kube.wait_condition(NAME, namespace, type="Progressing", status="False", seconds=60)
    assert len(traffic.answers) >= 20
    assert traffic.failures == []
    new = only_pod(kube, namespace)
    revision = names.LABEL_REVISION
    assert new["metadata"]["labels"][revision] != old["metadata"]["labels"][revision]
    found = kube.have(MODEL, NAME, namespace)
    assert found["status"]["plan"]["contextLength"] == 4096
    assert {each.status for each in recording.of("Available")} == {"True"}, "it was away"
    reasons = [event["reason"] for event in kube.events(namespace, NAME)]
    assert reasons.count("RolloutStarted") == 1
    assert reasons.count("RolloutCompleted") == 1


def _replaced(kube: Kube, namespace: str, old: Object) -> bool:
    uids = [
        pod["metadata"]["uid"]
        for pod in kube.find(POD, namespace, selector=f"{names.LABEL_MODEL}={NAME}")
    ]
    return bool(uids) and old["metadata"]["uid"] not in uids


def test_the_old_revision_keeps_no_deployment_but_its_record(moving: Engine, kube: Kube) -> None:
    selector = f"{names.LABEL_MODEL}={NAME}"
    deployments = kube.find(names.DEPLOYMENT, moving.namespace, selector=selector)
    records = kube.find(names.CONTROLLER_REVISION, moving.namespace, selector=selector)
    assert len(deployments) == 1
    assert deployments[0]["metadata"]["name"] in {each["metadata"]["name"] for each in records}


def test_a_deleted_pod_finishes_its_stream(moving: Engine, kube: Kube) -> None:
    namespace = moving.namespace
    pod = only_pod(kube, namespace)
    with client(kube, NAME, namespace) as api:
        stream = api.completions.create(
            model=NAME,
            prompt="the server",
            max_tokens=STREAM_TOKENS,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        first = next(iter(stream))
        assert first.choices
        kube.delete(POD, pod["metadata"]["name"], namespace)
        deleted = time.monotonic()
        chunks = list(stream)
    lasted = time.monotonic() - deleted
    finish = next(each.choices[0].finish_reason for each in reversed(chunks) if each.choices)
    assert finish == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == STREAM_TOKENS
    assert lasted > 1, "the stream ended before the pod was told to"
    kube.wait_gone(POD, pod["metadata"]["name"], namespace, seconds=120)
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)


def test_an_engine_that_hangs_is_named_and_goes_on_once_it_can(
    moving: Engine, kube: Kube, cluster: Cluster, fault: Fault
) -> None:
    pod = only_pod(kube, moving.namespace)
    core = faults.engine_core(cluster, pod)
    faults.stop(cluster, core)
    try:
        seen = shown(kube, NAME, moving.namespace, reason="EngineStalled", words="showed no token")
    finally:
        faults.go_on(cluster, core)
    seen.into(fault, "engine core: kill -STOP, then -CONT")
    kube.wait_condition(NAME, moving.namespace, type="Ready", seconds=60)
    assert faults.restarts(only_pod(kube, moving.namespace)) == faults.restarts(pod)


def test_a_killed_engine_is_named_and_comes_back(
    moving: Engine, kube: Kube, cluster: Cluster, fault: Fault
) -> None:
    namespace = moving.namespace
    pod = only_pod(kube, namespace)
    faults.kill_engine(cluster, pod)
    name = pod["metadata"]["name"]
    shown(kube, NAME, namespace, reason="EngineFailed", words="SIGKILL").into(
        fault, "API server of vLLM: kill -9, then serving again"
    )
    ended = until(
        f"the engine container of {name} to be restarted",
        lambda: _last_end(kube.have(POD, name, namespace)),
        seconds=120,
        say=kube.say,
    )
    assert ended["exitCode"] == 70
    message = ended["message"]
    assert "SIGKILL" in message or "signal 9" in message
    assert message.strip().count("\n") == 0
    assert "Traceback" not in message
    # It is started again at once, and while it loads the object says why.
    told = kube.wait_condition(
        NAME, namespace, type="Progressing", status="True", reason="Loading", seconds=60
    )
    assert (
        f"{name} (restarts: 1, the last ended with exit code 70: "
        in conditions(told)["Progressing"].message
    )
    assert "SIGKILL" in conditions(told)["Ready"].message
    kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    after = only_pod(kube, namespace)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert faults.restarts(after) == faults.restarts(pod) + 1


def _last_end(pod: Object) -> Object | None:
    (engine,) = pod["status"]["containerStatuses"]
    for state in ("state", "lastState"):
        ended: Object | None = engine.get(state, {}).get("terminated")
        if ended is not None:
            return ended
    return None


def test_deleting_the_object_removes_every_child(moving: Engine, kube: Kube) -> None:
    namespace = moving.namespace
    kube.kubectl("delete", "im", NAME, "-n", namespace, "--timeout=30s")
    kube.wait_childless(NAME, namespace, seconds=GONE_SECONDS)
