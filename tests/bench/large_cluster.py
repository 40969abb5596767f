"""A cluster of thousands of nodes and models, made up but shaped like real ones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from tests.support.builders import (
    GIB,
    PRODUCTS,
    Cluster,
    catalog_spec,
    foreign_pod,
    gpu_node,
    tiny_architecture,
    tiny_spec,
)

from kindling_operator.model.names import LABEL_GPU_MEMORY, LABEL_GPU_PRODUCT, Key
from kindling_operator.model.objects import NodeUse, NodeView
from kindling_operator.model.snapshot import Snapshot

KINDS: Final = ("NVIDIA-H200", "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200", "NVIDIA-L40S")
SPECS: Final = 50
"""Different specs among the models, beside their names and weights: people copy manifests."""
CONCURRENCY: Final = (1, 2, 4, 6, 8, 12, 16)
MIN_MEMORY: Final = (None, None, None, "80Gi", "140Gi")
ZONES: Final = 3
ZONE: Final = "topology.kubernetes.io/zone"
TEAM: Final = "example.com/team"
TEAM_NODES: Final = 5


class Shape(StrEnum):
    """What each model has of its own, beside its spec's wishes."""

    PLAIN = "nothing more"
    NO_NODE = "nodeSelector that matches nothing"
    TEAM = "nodeSelector of a team of 5 nodes"
    TOLERATION = "toleration"
    CUSTOM = "custom architecture"


def snapshot(
    *, nodes: int, models: int, specs: int = SPECS, shape: Shape = Shape.PLAIN
) -> Snapshot:
    """Half of the nodes have GPUs held by others, every node runs other pods."""
    views = tuple(_node(number, teams=max(1, nodes // TEAM_NODES)) for number in range(nodes))
    found = Cluster(
        nodes=views,
        pods=tuple(
            foreign_pod(view.name, gpus=number % 9, name=f"job-{number}")
            for number, view in enumerate(views)
            if number % 2 and number % 9
        ),
    )
    for number in range(models):
        wishes = _wishes(number % specs, name=f"model-{number}")
        wishes["placement"] |= _own(number, shape)
        spec = catalog_spec(
            ("flint", "inkling")[number % 2],
            replicas=1 + number % 3,
            model={"weights": {"uri": f"pvc://weights/{number}"}},
            **wishes,
        )
        if shape is Shape.CUSTOM:
            spec = _custom(number)
        age = timedelta(minutes=number)
        found.apply(spec, key=Key("ml", f"model-{number:04}"), age=age)
    use = NodeUse(cpu_millis=12_000, memory=40 * GIB, ephemeral=GIB, pods=30)
    return replace(found.snapshot(), used={view.name: use for view in views})


def _wishes(number: int, *, name: str) -> dict[str, Any]:
    """What people ask for: no two numbers want the same context, few anything that is rare."""
    seed = [f"--seed={number}"] if number % 3 == 0 else []
    least = MIN_MEMORY[number % len(MIN_MEMORY)]
    zone = number % (2 * ZONES)
    return {
        "serving": {
            "contextLength": 4096 + number * 256,
            "concurrency": CONCURRENCY[number % len(CONCURRENCY)],
            "servedName": name,
            "extraArgs": seed,
        },
        "placement": {
            **({"gpu": {"minMemory": least}} if least else {}),
            **({"nodeSelector": {ZONE: f"zone-{zone}"}} if zone < ZONES else {}),
            **({"tolerations": [{"key": "team", "value": "a"}]} if number % 7 == 0 else {}),
        },
        "runtime": {"resources": {"memory": f"{1 + number % 4}Gi"}},
    }


def _own(number: int, shape: Shape) -> dict[str, Any]:
    """The placement that no other model has."""
    if shape is Shape.NO_NODE:
        return {"nodeSelector": {TEAM: f"nobody-{number}"}}
    if shape is Shape.TEAM:
        return {"nodeSelector": {TEAM: f"team-{number}"}}
    if shape is Shape.TOLERATION:
        return {"tolerations": [{"key": f"team-{number}", "operator": "Exists"}]}
    return {}


def _custom(number: int) -> dict[str, Any]:
    """A model that nobody else has: layers, width, window and size are its own."""
    layers, heads = 8 + number % 40, {"kvHeads": 8, "headSize": 128}
    near = layers // 2
    own = tiny_architecture(
        layers=layers,
        hiddenSize=2048 + 64 * (number % 100),
        attentionHeads=32,
        contextLength=32_768 + 16 * number,
        attention=[
            {"name": "full", "kind": "Full", "layers": layers - near, **heads},
            {"name": "near", "kind": "Sliding", "layers": near, "window": 512 + number, **heads},
        ],
        checkpoints=[{"name": "BF16", "bytes": 10**10 + number * 10**8}],
        devices=["GPU"],
    )
    weights = {"uri": f"pvc://weights/{number}"}
    return tiny_spec(model={"name": "custom", "weights": weights, "custom": own})


def _node(number: int, *, teams: int) -> NodeView:
    product = KINDS[number % len(KINDS)]
    major, minor = PRODUCTS[product][1:]
    node = gpu_node(
        name(number),
        product,
        compute=f"{major}.{minor}",
        driver="580.65.06",
        zone=f"zone-{number % ZONES}",
        ephemeral=2048 * GIB,
        pods=110,
    )
    return replace(node, labels={**node.labels, ZONE: node.zone, TEAM: f"team-{number % teams}"})


def name(number: int) -> str:
    """Of a node."""
    return f"gpu-{number:05}"


def node_bodies(count: int) -> Iterator[dict[str, Any]]:
    """Nodes as the API server shows them: labels of feature discovery, a list of images."""
    for number in range(count):
        product = KINDS[number % len(KINDS)]
        memory, major, minor = PRODUCTS[product]
        features = {f"feature.node.kubernetes.io/cpu-cpuid.F{each}": "true" for each in range(60)}
        labels = {
            "kubernetes.io/hostname": name(number),
            ZONE: f"zone-{number % ZONES}",
            LABEL_GPU_PRODUCT: product,
            LABEL_GPU_MEMORY: str(memory),
            "nvidia.com/gpu.compute.major": major,
            "nvidia.com/gpu.compute.minor": minor,
            **features,
        }
        images = [
            {"names": [f"registry.test/image-{each}@sha256:{each:064}"], "sizeBytes": each}
            for each in range(50)
        ]
        yield {
            "metadata": {"name": name(number), "uid": f"node-{number}", "labels": labels},
            "status": {
                "allocatable": {
                    "cpu": "192",
                    "memory": "2000Gi",
                    "pods": "110",
                    "nvidia.com/gpu": "8",
                },
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": images,
            },
        }


def pod_bodies(count: int, *, nodes: int) -> Iterator[dict[str, Any]]:
    """Pods of others: one in twenty holds a GPU."""
    for number in range(count):
        amounts = {"cpu": f"{100 + number % 7 * 50}m", "memory": f"{256 << number % 4}Mi"}
        gpu = {"nvidia.com/gpu": "1"} if number % 20 == 0 else {}
        container = {
            "name": "main",
            "image": f"registry.test/team/service-{number % 400}:1.2.3",
            "resources": {"requests": {**amounts, **gpu}, "limits": gpu},
            "env": [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(20)],
        }
        yield {
            "metadata": {
                "name": f"service-{number % 400}-{number:08x}",
                "namespace": f"team-{number % 90}",
                "uid": f"{number:08x}-0000-4000-8000-000000000000",
                "labels": {"app": f"service-{number % 400}", "pod-template-hash": f"{number:x}"},
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": "x" * 800}}],
            },
            "spec": {"nodeName": name(number % nodes), "containers": [container]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}] * 5},
        }
