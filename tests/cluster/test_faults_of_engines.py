"""Engines of a pod that hang, die, starve or never stay up: what kubectl shows, and how soon.

The tests share one model and run in order: each leaves it serving for the next.
"""

import subprocess
import time
from typing import Final

import pytest
from tests.support import faults, install, manifests
from tests.support.faultpage import Fault
from tests.support.fixtures import READY_SECONDS, Engine
from tests.support.install import NAMESPACE, OPERATOR, Images
from tests.support.kube import MODEL, POD, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.phases import recorded
from tests.support.shown import Shown, is_one_sentence, shown
from tests.support.waiting import until

from kindling_operator.plan.causes import BUDGET

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200, func_only=True)]

NAME: Final = "victim"
BACK_SECONDS: Final = READY_SECONDS + 300
"""With the longest of the kubelet's waits before it starts a container again."""
HOG: Final = "b = bytearray(1 << 30); b[::4096] = bytes(len(b[::4096])); import time; time.sleep(9)"


@pytest.fixture(scope="module")
def victim(namespace: str, kube: Kube, operator: Images) -> Engine:
    """The model of this file, served."""
    with recorded(kube, NAME, namespace) as recording:
        kube.apply(manifests.tiny(NAME, namespace))
        kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    return Engine(NAME, namespace, recording)


@pytest.fixture
def pod(victim: Engine, kube: Kube) -> Object:
    """Its pod, once the model is Ready again after the last test."""
    kube.wait_condition(NAME, victim.namespace, type="Ready", seconds=BACK_SECONDS)
    return faults.serving_pod(kube, NAME, victim.namespace)


def fails(kube: Kube, victim: Engine, words: str = "", *, reason: str = "EngineFailed") -> Shown:
    return shown(kube, NAME, victim.namespace, reason=reason, words=words)


def again(kube: Kube, pod: Object) -> Object:
    """The same pod, a container later."""
    faults.wait_restarted(kube, pod)
    return kube.have(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])


def test_a_killed_engine_core_is_named(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    faults.kill(cluster, faults.engine_core(cluster, pod))
    seen = fails(kube, victim, "ended with exit code 70")
    seen.into(fault, "engine core: kill -9")
    assert f"The engine of {pod['metadata']['name']} ended" in seen.message
    assert "once" in seen.message


def test_a_killed_server_is_named(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    faults.kill_engine(cluster, pod)
    seen = fails(kube, victim, "was killed by SIGKILL")
    seen.into(fault, "API server of vLLM: kill -9")
    assert "2 times" in seen.message


def test_a_pod_deleted_while_it_loads_is_replaced(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    """A new pod: what the old one died of is of no interest any more."""
    faults.kill_engine(cluster, pod)
    fails(kube, victim)
    again(kube, pod)
    kube.delete(POD, pod["metadata"]["name"], victim.namespace)
    seen = fails(kube, victim, "starts the engine and has until", reason="Loading")
    seen.into(fault, "pod: deleted while it loads")
    assert pod["metadata"]["name"] not in seen.message


def test_an_engine_that_hangs_is_named_and_started_again(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    faults.stop(cluster, faults.engine_core(cluster, pod))
    seen = fails(kube, victim, "the engine showed no token", reason="EngineStalled")
    seen.into(fault, "engine core: kill -STOP")
    again(kube, pod)
    wedged = fails(kube, victim, "the engine is wedged", reason="EngineStalled")
    fault.note(f"given up: {wedged.message.partition(': ')[2]}")


def test_a_child_that_runs_out_of_memory_is_named_with_the_limit(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    """A stranger in the container fills it to the limit, and the kernel takes the largest."""
    _lower_limit(cluster, pod)
    command = ["kubectl", "exec", "-n", victim.namespace, pod["metadata"]["name"], "--"]
    with subprocess.Popen([*command, "python3", "-c", HOG], env=kube.environment) as hog:
        seen = fails(kube, victim, reason="OutOfMemory")
        hog.kill()
    seen.into(fault, "memory: a process of the engine is killed at the limit")
    assert "spec.runtime.resources.memory" in seen.message
    assert " GiB" in seen.message


def _lower_limit(cluster: Cluster, pod: Object) -> None:
    """The container's limit becomes what it uses and a little more, as if the plan were wrong."""
    core = faults.engine_core(cluster, pod)
    script = (
        "set -e; for l in $(cat /proc/$0/cgroup); do IFS=: read -r _ c p <<< $l;"
        ' case $c in memory) f=/sys/fs/cgroup/memory$p/memory; u=$(cat "$f.usage_in_bytes");'
        ' echo $((u + (64 << 20))) > "$f.limit_in_bytes";; "") [ -e /sys/fs/cgroup$p/memory.max ]'
        ' || continue; f=/sys/fs/cgroup$p/memory; u=$(cat "$f.current");'
        ' echo $((u + (64 << 20))) > "$f.max";; esac; done'
    )
    cluster.node("bash", "-c", script, str(core))


def test_an_engine_that_dies_while_no_operator_runs_heals_and_is_told_of_later(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    deployment = f"deployment/{OPERATOR}"
    kube.kubectl("scale", deployment, "-n", NAMESPACE, "--replicas=0")
    try:
        until(
            "the operator to be gone",
            lambda: not kube.find(POD, NAMESPACE, selector=install.OPERATOR_PODS),
            seconds=60,
            say=kube.say,
        )
        faults.kill(cluster, faults.engine_core(cluster, pod))
        died = time.monotonic()
        again(kube, pod)
        until(
            "the pod to serve again by itself",
            lambda: _is_ready(kube.have(POD, pod["metadata"]["name"], victim.namespace)),
            seconds=BACK_SECONDS,
            say=kube.say,
        )
        healed = time.monotonic() - died
    finally:
        kube.kubectl("scale", deployment, "-n", NAMESPACE, "--replicas=1")
    back = time.monotonic()
    told = until(
        "the operator to tell of the restart",
        lambda: _told_of(kube, victim, f"(restarts: {faults.restarts(pod) + 1}, the last ended"),
        seconds=60,
        say=kube.say,
        show=lambda: kube.told(NAME, victim.namespace),
    )
    assert is_one_sentence(told), told
    assert told in kube.kubectl("describe", "im", NAME, "-n", victim.namespace)
    kube.say(f"  healed after {healed:.1f} s, told {time.monotonic() - back:.1f} s after: {told}")
    Shown("Complete", told, time.monotonic() - back).into(
        fault, "operator: absent while an engine dies; seconds from its return"
    )


def _told_of(kube: Kube, victim: Engine, words: str) -> str | None:
    message = conditions(kube.have(MODEL, NAME, victim.namespace))["Progressing"].message
    return message if words in message else None


def _is_ready(pod: Object) -> bool:
    return conditions(pod)["Ready"].status == "True"


def test_an_engine_that_never_stays_up_has_failed_with_the_count_and_the_last_word(
    victim: Engine, pod: Object, cluster: Cluster, kube: Kube, fault: Fault
) -> None:
    name = pod["metadata"]["name"]
    while faults.restarts(pod) < BUDGET - 1:
        _kill_soon(cluster, kube, pod)
        pod = again(kube, pod)
    _kill_soon(cluster, kube, pod)
    began = time.monotonic()
    found = kube.wait_condition(
        NAME, victim.namespace, type="Progressing", status="False", reason="Failed", seconds=30
    )
    message = conditions(found)["Progressing"].message
    seen = shown(kube, NAME, victim.namespace, reason="EngineFailed", words="SIGKILL", began=began)
    seen.into(fault, f"engine: ends {BUDGET} times")
    kube.say(f"  Progressing=False/Failed: {message}")
    assert is_one_sentence(message), message
    assert f"pod {name} (restarts: {BUDGET - 1}, the last ended with exit code 70" in message
    fault.note(f"Progressing Failed: {message.partition(', ')[2]}")


def _kill_soon(cluster: Cluster, kube: Kube, pod: Object) -> None:
    """End the engine as soon as there is one."""
    until(
        "an engine to be started",
        lambda: len(cluster.processes(pod)) >= 2,
        seconds=400,
        say=kube.say,
    )
    faults.kill_engine(cluster, pod)
