"""A completion asked for by a pod of the cluster, through the Service's DNS name."""

from __future__ import annotations

from pathlib import Path

from tests.support import manifests
from tests.support.demo import chat
from tests.support.kube import POD, Kube, KubectlError, Object
from tests.support.waiting import until

CLIENT = "client"
SECONDS = 120


def chat_inside(kube: Kube, namespace: str, model: Object, *, image: str) -> None:
    """Run chat.py in a restricted pod against `status.endpoint`, and print what it prints.

    The serving image is used because it is on the node and has the openai client.
    """
    endpoint, name = model["status"]["endpoint"], model["metadata"]["name"]
    source = Path(chat.__file__)
    kube.say(f"  {source.name} {endpoint} {name}")
    kube.kubectl("delete", "pod", CLIENT, "-n", namespace, "--ignore-not-found", "--wait")
    kube.apply(*_manifests(namespace, source.read_text(), [endpoint, name], image=image))

    def ended() -> bool:
        phase = kube.have(POD, CLIENT, namespace)["status"]["phase"]
        return phase in {"Succeeded", "Failed"}

    until(f"the pod {namespace}/{CLIENT}", ended, seconds=SECONDS, say=kube.say)
    print(kube.kubectl("logs", CLIENT, "-n", namespace).rstrip())
    if kube.have(POD, CLIENT, namespace)["status"]["phase"] == "Failed":
        raise KubectlError(("logs", CLIENT, "-n", namespace), "the client failed, see above")
    kube.kubectl("delete", "pod", CLIENT, "-n", namespace, "--wait=false")


def _manifests(
    namespace: str, script: str, arguments: list[str], *, image: str
) -> tuple[Object, Object]:
    command = ["python", "/demo/chat.py", *arguments]
    pod = manifests.restricted_pod(CLIENT, namespace, image=image, command=command)
    pod["spec"]["volumes"] = [{"name": "demo", "configMap": {"name": CLIENT}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "demo", "mountPath": "/demo"}]
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CLIENT, "namespace": namespace},
        "data": {"chat.py": script},
    }
    return config, pod
