"""Faults of a running installation, and the wait until everything is whole again."""

from typing import Final

from tests.support import install
from tests.support.kube import AWAY, MODEL, NODE, POD, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.waiting import until

from kindling_operator.model import names

COMPONENTS: Final = (
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "containerd",
    "relay",
)
"""What a cluster can lose for a moment without a request to a model noticing."""

WHOLE_SECONDS: Final = 420
"""A killed API server answered again after 8 s on a busy machine; back-offs follow. The longest is
the kubelet's: 300 s before a container starts again that ended six times within ten minutes each.
"""


def serving_pods(kube: Kube, name: str, namespace: str) -> list[Object]:
    """The model's pods that are not on their way out."""
    return _staying(kube.find(POD, namespace, selector=f"{names.LABEL_MODEL}={name}"))


def serving_pod(kube: Kube, name: str, namespace: str) -> Object:
    """The model's only pod; fails if there are none or more."""
    found = serving_pods(kube, name, namespace)
    assert len(found) == 1, [pod["metadata"]["name"] for pod in found]
    return found[0]


def operator_pod(kube: Kube) -> Object:
    """The operator's only pod that is not on its way out."""
    (pod,) = _staying(kube.find(POD, install.NAMESPACE, selector=install.OPERATOR_PODS))
    return pod


def _staying(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def kill_operator(cluster: Cluster, kube: Kube) -> None:
    """SIGKILL the operator's process, and wait until its container was started again."""
    pod = operator_pod(kube)
    for pid in cluster.processes(pod):
        kill(cluster, pid)
    wait_restarted(kube, pod)


def kill_engine(cluster: Cluster, pod: Object) -> None:
    """SIGKILL the engine that the runtime (the pod's first process) has started."""
    _, engine = list(cluster.processes(pod))[:2]
    kill(cluster, engine)


def engine_core(cluster: Cluster, pod: Object) -> int:
    """The process (of the node) in which vLLM schedules; its server lives on without it."""
    found = [
        pid for pid, name in cluster.processes(pod).items() if name.startswith("VLLM::EngineC")
    ]
    assert len(found) == 1, cluster.processes(pod)
    return found[0]


def stop(cluster: Cluster, pid: int) -> None:
    """SIGSTOP: it stays, and does nothing."""
    cluster.node("kill", "-STOP", str(pid))


def go_on(cluster: Cluster, pid: int) -> None:
    """SIGCONT."""
    cluster.node("kill", "-CONT", str(pid))


def kill(cluster: Cluster, pid: int) -> None:
    """SIGKILL."""
    cluster.node("kill", "-KILL", str(pid))


def restarts(pod: Object) -> int:
    """How often the pod's one container was started again."""
    (container,) = pod["status"]["containerStatuses"]
    return int(container["restartCount"])


def wait_restarted(kube: Kube, pod: Object) -> None:
    """Wait until the container of this very pod was started again."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    until(
        f"the container of {namespace}/{name} to be started again",
        lambda: restarts(kube.have(POD, name, namespace)) > restarts(pod),
        seconds=WHOLE_SECONDS,
        say=kube.say,
    )


def wait_whole(kube: Kube, name: str, namespace: str, *, after: str) -> None:
    """Wait until node, operator and model are ready, whatever is away meanwhile."""

    def whole() -> bool:
        nodes, model = kube.find(NODE), kube.have(MODEL, name, namespace)
        return all(conditions(each)["Ready"].status == "True" for each in (*nodes, model))

    until(
        f"node and model to be ready again after {after}",
        whole,
        seconds=WHOLE_SECONDS,
        say=kube.say,
        show=lambda: kube.told(name, namespace),
        brief=lambda: kube.told(name, namespace, only="Progressing"),
        forgive=AWAY,
    )
    install.wait_for_operator(kube, seconds=WHOLE_SECONDS)
