"""Random specs on random clusters, right and wrong ones, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from tests.support.builders import (
    GIB,
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    foreign_pod,
    gpu_node,
    tainted,
    tiny_architecture,
    tiny_spec,
)
from tests.support.manifests import merged
from tests.support.spec_fields import CHANGES, REFUSED

from kindling_operator.model.names import Key
from kindling_operator.model.objects import ClaimView, GpuShare, NodeView

CLAIM: Final = ClaimView("ml", "weights", "Bound", terminating=False)

Patch = Callable[[Random], dict[str, Any]]


def _size(random: Random) -> int:
    """Mostly a size that people write, sometimes anything."""
    return random.choice([1, 1, 2, 2, 3, 4, 4, 8, 8, 12, 16, 32, 64, 1024, random.randint(1, 1024)])


def _pins(random: Random) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        name: _size(random) for name in ("tensor", "pipeline", "data") if random.random() < 0.4
    }
    if random.random() < 0.3:
        sizes["expert"] = random.random() < 0.6
    return {"placement": {"parallelism": sizes}}


def _context(random: Random) -> dict[str, Any]:
    length = random.choice([16, 1000, 8192, 131_072, 262_144, 1_048_576, 16_777_216])
    return {"serving": {"contextLength": length, "concurrency": random.choice([1, 2, 9, 64, 4096])}}


def _drafts(random: Random) -> dict[str, Any]:
    mode = random.choice(["Auto", "Disabled", "Fixed"])
    tokens = {"tokens": random.choice([1, 2, 4, 5, 8, 9, 16, 32])} if mode == "Fixed" else {}
    return {"serving": {"speculation": {"mode": mode, **tokens}}}


def _gpu(random: Random) -> dict[str, Any]:
    wish: dict[str, Any] = {}
    if random.random() < 0.5:
        wish["products"] = random.sample(
            ["NVIDIA-H200", "NVIDIA-B200", "NVIDIA-L40S", "NVIDIA-X1"], 2
        )
    if random.random() < 0.5:
        wish["minMemory"] = random.choice(["1", "40Gi", "80Gi", "150Gi", "9Pi"])
    return {"placement": {"gpu": wish}}


def _limit(random: Random) -> dict[str, Any]:
    return {"placement": {"maxGpusPerReplica": _size(random)}}


def _memory(random: Random) -> dict[str, Any]:
    size = random.choice(["0", "1Mi", "8Gi", "200Gi", "4Ti"])
    return {"cache": {"hostMemory": size}}


def _serving(random: Random) -> dict[str, Any]:
    return {
        "serving": random.choice(
            [
                {"modalities": ["Text"]},
                {"modalities": ["Audio", "Image", "Text"]},
                {"modalities": ["Image"]},
                {"frontend": "Rust"},
                {"mediaDomains": ["a.example.com"]},
                {"extraArgs": ["--seed=1"]},
                {"extraArgs": ["--tensor-parallel-size=2"]},
                {"extraArgs": ["--max-num-batched-tokens=9"]},
                {"adapters": [{"name": "a", "uri": "pvc://weights/a"}]},
            ]
        )
    }


def _checkpoint(random: Random) -> dict[str, Any]:
    return {"model": {"checkpoint": random.choice(["Auto", "BF16", "NVFP4"])}}


def _any_field(random: Random) -> dict[str, Any]:
    changes = [after for _, after in CHANGES.values()]
    return random.choice([*changes, *REFUSED.values(), {"replicas": 3}, {"replicas": "many"}])


PATCHES: Final[tuple[Patch, ...]] = (
    _pins, _pins, _context, _drafts, _gpu, _limit, _memory, _serving, _checkpoint, _any_field,
)  # fmt: skip


def _architecture(random: Random) -> Mapping[str, Any]:
    """A decoder of a few layers; every tenth does not add up."""
    heads = random.choice([1, 8, 12, 32, 40, 64])
    kv_heads = random.choice([h for h in (1, 2, 4, 8) if heads % h == 0] or [1])
    layers = random.randint(1, 80)
    sliding = random.randint(0, layers - 1)
    group = {"kvHeads": kv_heads, "headSize": random.choice([64, 128])}
    attention = [{"name": "full", "kind": "Full", "layers": layers - sliding, **group}]
    if sliding:
        window = random.choice([4, 512, 513, 4096])
        attention.append(
            {"name": "near", "kind": "Sliding", "layers": sliding, "window": window, **group}
        )
    changes: dict[str, Any] = {
        "attentionHeads": heads,
        "hiddenSize": heads * 64,
        "layers": layers,
        "attention": attention,
        "contextLength": random.choice([4096, 40_960, 1_000_000]),
        "checkpoints": [{"name": "BF16", "bytes": random.choice([10**9, 10**11, 10**12])}],
        "devices": random.choice([["GPU"], ["GPU"], ["CPU", "GPU"], ["CPU"]]),
    }
    if random.random() < 0.3:
        changes["experts"] = {
            "count": random.choice([8, 60, 256]),
            "perToken": 2,
            "layers": random.randint(1, layers),
            "intermediateSize": random.choice([64, 100, 768]),
        }
    if random.random() < 0.3:
        changes["draft"] = {"depths": random.choice([1, 3, 8]), "attentionGroup": "full"}
    if random.random() < 0.1:
        changes |= random.choice(
            [{"layers": layers + 1}, {"contextLength": 0}, {"vocabularySize": "x"}]
        )
    return tiny_architecture(**changes)


def random_spec(random: Random) -> Any:
    """A spec that is nearly right, or quite right, or neither."""
    name = random.choice(["flint", "inkling", "inkling", "custom"])
    spec = tiny_spec(_architecture(random)) if name == "custom" else catalog_spec(name)
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        spec = merged(spec, random.choice(PATCHES)(random))
    return spec


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes that one bought together."""

    product: str
    gpus: int
    memory: int
    driver: str
    architecture: str
    clique: str


def random_kind(random: Random) -> Kind:
    """Mostly nodes that can be used."""
    return Kind(
        product=random.choice(PRODUCTS),
        gpus=random.choice([1, 2, 4, 8, 8, 8, 8, 16]),
        memory=random.choice([120, 1000, 2000, 2000]) * GIB,
        driver=random.choice(["", "", "580.65.06", "580.65.06", "550.1"]),
        architecture=random.choice(["amd64"] * 8 + ["arm64"] * 2 + ["riscv64"]),
        clique=random.choice(["", "", "rack-1"]),
    )


def random_node(random: Random, name: str, kind: Kind) -> NodeView:
    """A laptop or a GPU node, in one of many states."""
    if not kind.product:
        return cpu_node(name, memory=random.choice([20 * GIB, kind.memory]))
    node = gpu_node(
        name,
        kind.product,
        gpus=random.choice([0, *[kind.gpus] * 9]),
        memory=kind.memory,
        clique=kind.clique,
        zone=random.choice(["a", "b"]),
        driver=kind.driver,
        share=random.choices(list(GpuShare), weights=(94, 3, 3))[0],
        architecture=kind.architecture,
    )
    if random.random() < 0.2:
        node = tainted(node, random.choice(["nvidia.com/gpu", "nvidia.com/gpu", "team"]))
    if random.random() < 0.05:
        node = replace(node, labels={})
    return replace(node, ready=random.random() < 0.95, unschedulable=random.random() < 0.05)


PRODUCTS: Final = (
    "",
    *["NVIDIA-H200"] * 3,
    *["NVIDIA-B200"] * 3,
    *["NVIDIA-H100-80GB-HBM3"] * 2,
    "NVIDIA-L40S",
)


def random_cluster(seed: int) -> Cluster:
    """A cluster with one to three models, none of which has run yet."""
    random = Random(seed)
    names = [f"n{number}" for number in range(random.choice([0, 1, 1, 2, 4, 8]))]
    kinds = [random_kind(random) for _ in range(random.choice([1, 1, 2, 3]))]
    found = Cluster(
        nodes=tuple(random_node(random, name, random.choice(kinds)) for name in names),
        pods=tuple(
            foreign_pod(random.choice(names), gpus=random.randint(1, 8), name=f"job-{number}")
            for number in range(random.choice([0, 0, 1, 3]) if names else 0)
        ),
        claims=random.choice(
            [(), *[(ClaimView("ml", "weights", "Bound", terminating=False),)] * 9]
        ),
        environment=environment(name_foreign_holders=random.random() < 0.5),
    )
    for number in range(random.choice([1, 1, 1, 2, 3])):
        age = timedelta(minutes=random.randint(0, 2))
        found.apply(random_spec(random), key=Key("ml", f"model-{number}"), age=age)
    return found
