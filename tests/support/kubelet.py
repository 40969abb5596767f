"""What a test does in the kubelet's and the scheduler's place where no node runs."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from tests.support.kube import POD, Kube, Object
from tests.support.waiting import until

from kindling_operator.model import names

NODE_NAME: Final = "one"
PODS_SECONDS: Final = 90
LOOK_SECONDS: Final = 0.2


def make_node(kube: Kube, name: str = NODE_NAME, *, cpu: str = "64", memory: str = "256Gi") -> None:
    """A node that is ready and has room, on paper."""
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name}
    kube.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    core(kube).patch_node_status(name, {"status": status})


def serving_pods(kube: Kube, model: str, namespace: str, *, count: int) -> list[Object]:
    """The model's pods that are not leaving, once there are `count` of them."""
    selector = f"{names.LABEL_MODEL}={model},{names.LABEL_ROLE}={names.ROLE_LEADER}"

    def look() -> list[Object] | None:
        found = kube.find(POD, namespace, selector=selector)
        present = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return present if len(present) == count else None

    return until(
        f"{count} pods of {namespace}/{model}",
        look,
        seconds=PODS_SECONDS,
        every=0.1,
        show=lambda: kube.told(model, namespace),
    )


def bind(kube: Kube, pod: Object, *, node: str = NODE_NAME) -> None:
    """Give the pod a node, as the scheduler does; nothing if it has one."""
    if pod["spec"].get("nodeName"):
        return
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name=name, namespace=namespace),
        target=client.V1ObjectReference(api_version="v1", kind="Node", name=node),
    )
    try:
        core(kube).create_namespaced_pod_binding(name, namespace, binding, _preload_content=False)
    except ApiException as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


def run(kube: Kube, pod: Object, *, ready: bool, address: str = "10.244.0.2") -> None:
    """The pod runs; `ready`: it has generated a token, so the Service may send traffic to it."""
    bind(kube, pod)
    state = "True" if ready else "False"
    _set_status(
        kube,
        pod,
        {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "ContainersReady", "status": state},
                {"type": "Ready", "status": state},
            ],
            "containerStatuses": [_container(state={"running": {}}, ready=ready)],
        },
    )


def end(kube: Kube, pod: Object, *, code: int, message: str = "", reason: str = "Error") -> None:
    """The engine container of the pod has ended and waits to be started again."""
    bind(kube, pod)
    ended = {"exitCode": code, "reason": reason, "message": message}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    last = {"terminated": ended}
    _set_status(
        kube,
        pod,
        {
            "phase": "Running",
            "containerStatuses": [_container(state=waiting, ready=False, last=last, restarts=1)],
        },
    )


def end_leaving(kube: Kube, namespace: str) -> None:
    """End the pods that are being deleted."""
    for pod in kube.find(POD, namespace):
        if "deletionTimestamp" in pod["metadata"]:
            with contextlib.suppress(ApiException):
                core(kube).delete_namespaced_pod(
                    pod["metadata"]["name"], namespace, grace_period_seconds=0
                )


@contextlib.contextmanager
def playing(kube: Kube, namespace: str) -> Iterator[None]:
    """A kubelet for the duration of a with block: pods become ready at once and leave at once."""
    over = threading.Event()
    thread = threading.Thread(target=_play, args=(kube, namespace, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=30)


def _play(kube: Kube, namespace: str, over: threading.Event) -> None:
    while not over.wait(LOOK_SECONDS):
        for pod in kube.find(POD, namespace):
            leaving = "deletionTimestamp" in pod["metadata"]
            if not leaving and pod["status"].get("phase") != "Running":
                # A pod may be gone again; the next look finds out.
                with contextlib.suppress(ApiException):
                    run(kube, pod, ready=True)
        end_leaving(kube, namespace)


def core(kube: Kube) -> client.CoreV1Api:
    """The typed API: pods' bindings and statuses are subresources."""
    return _core(kube.environment["KUBECONFIG"])


@functools.cache
def _core(kubeconfig: str) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(kubeconfig))


def _set_status(kube: Kube, pod: Object, status: Object) -> None:
    core(kube).patch_namespaced_pod_status(
        pod["metadata"]["name"], pod["metadata"]["namespace"], {"status": status}
    )


def _container(
    *, state: Object, ready: bool, last: Object | None = None, restarts: int = 0
) -> Object:
    return {
        "name": names.ENGINE_CONTAINER,
        "image": "image",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
