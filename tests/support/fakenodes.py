"""Nodes with GPUs that nobody has: kwok makes them and the pods on them Running, and nothing else.

They are tainted, so that only what says so lands there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tests.support.kube import NODE, Kube, Object
from tests.support.onenode import Cluster
from tests.support.waiting import until

TAINT: Final = "kwok.x-k8s.io/node"
TOLERATION: Final = {"key": TAINT, "operator": "Exists"}
READY_SECONDS: Final = 60


def h200(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A node of eight H200 as NVIDIA's GPU feature discovery labels it, `labels` on top."""
    capacity = {
        "cpu": "192",
        "memory": "4Ti",
        "pods": "110",
        "ephemeral-storage": "20Ti",
        "nvidia.com/gpu": "8",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "nvidia.com/gpu.product": "NVIDIA-H200",
                "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.memory": "143771",
                "nvidia.com/gpu.compute.major": "9",
                "nvidia.com/gpu.compute.minor": "0",
                "nvidia.com/gpu.replicas": "1",
                "nvidia.com/gpu.sharing-strategy": "none",
                "nvidia.com/cuda.driver-version.full": "580.95.05",
                "nvidia.com/cuda.driver-version.major": "580",
                "nvidia.com/mig.strategy": "none",
                **(labels or {}),
            },
        },
        "spec": {"taints": [{"key": TAINT, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def add(kube: Kube, nodes: Sequence[Object]) -> None:
    """Make these nodes, and wait until kwok has them Ready."""
    kube.kubectl("create", "-f", "-", stdin=_listed(nodes))
    names = [f"node/{node['metadata']['name']}" for node in nodes]
    kube.kubectl("wait", "--for=condition=Ready", *names, f"--timeout={READY_SECONDS}s")


def remove(kube: Kube, *names: str) -> None:
    """Take nodes away; their pods go after them."""
    for name in names:
        kube.delete(NODE, name)
    until(
        "the fake nodes to be gone",
        lambda: not [name for name in names if kube.get(NODE, name) is not None],
        seconds=READY_SECONDS,
        say=kube.say,
    )


@contextmanager
def fake_nodes(cluster: Cluster, kube: Kube, nodes: Sequence[Object]) -> Iterator[None]:
    """These nodes for as long as the block runs; what an earlier run left is removed first."""
    cluster.addon("kwok")
    names = [str(node["metadata"]["name"]) for node in nodes]
    remove(kube, *names)
    add(kube, nodes)
    try:
        yield
    finally:
        remove(kube, *names)


def _listed(nodes: Sequence[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(nodes)})
