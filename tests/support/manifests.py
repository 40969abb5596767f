"""Builders of the objects that tests apply."""

from typing import Any, Final

import yaml
from tests.support.kube import Object
from tests.support.onenode import ROOT

from kindling_operator.model import names

USER: Final = 65532

RESTRICTED: Final = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
}

EXAMPLE: Final = ROOT / "docs" / "examples" / "tiny.yaml"
"""The tiny model as the docs and the demo apply it."""


def namespace(name: str) -> Object:
    """A namespace in which only restricted pods may run."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": dict(RESTRICTED)},
    }


def model(name: str, namespace: str, spec: Object) -> Object:
    """An InferenceModel."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def tiny(
    name: str,
    namespace: str,
    *,
    uri: str = "pvc://weights/tiny",
    architecture: Object | None = None,
    **spec: Any,
) -> Object:
    """The tiny model of the docs on CPU; `spec` is laid over its spec, None removes a field."""
    base: Object = yaml.safe_load(EXAMPLE.read_text())["spec"]
    source = {"model": {"weights": {"uri": uri}, "custom": architecture or {}}}
    return model(name, namespace, merged(merged(base, source), spec))


def merged(base: Object, over: Object) -> Object:
    """`base` with `over` laid over it, maps into maps; None removes a field."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def claim(
    name: str, namespace: str, *, volume: str, mode: str = "ReadOnlyMany", storage: str = "1Mi"
) -> Object:
    """A claim of a volume that exists already."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": [mode],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": storage}},
        },
    }


def writable(name: str, namespace: str, *, volume: str, path: str) -> tuple[Object, Object]:
    """A volume that is a folder of the node, and a claim of it by which pods write there."""
    mode, storage = "ReadWriteMany", "1Gi"
    made = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": storage},
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": path, "type": "Directory"},
        },
    }
    return made, claim(name, namespace, volume=volume, mode=mode, storage=storage)


def restricted_pod(name: str, namespace: str, *, image: str, command: list[str]) -> Object:
    """A pod that runs one command once, as restricted Pod Security wants it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": command,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def scaler(name: str, namespace: str, *, target: str, most: int) -> Object:
    """A HorizontalPodAutoscaler of an InferenceModel, by CPU."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": target,
            },
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 80},
                    },
                }
            ],
        },
    }


def requested_gpus(manifests: Any) -> int:
    """GPUs that all pods of all manifests request."""
    found = 0
    for manifest in manifests:
        spec = manifest.get("spec", {})
        match manifest["kind"]:
            case "Deployment":
                found += spec["replicas"] * _of_pod(spec["template"])
            case "LeaderWorkerSet":
                group = spec["leaderWorkerTemplate"]
                workers = (group["size"] - 1) * _of_pod(group["workerTemplate"])
                found += spec["replicas"] * (_of_pod(group["leaderTemplate"]) + workers)
    return found


def _of_pod(template: Any) -> int:
    (container,) = template["spec"]["containers"]
    return int(container["resources"]["limits"].get(names.GPU_RESOURCE, 0))
