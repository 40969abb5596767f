"""Nodes with GPUs that no plan can use, as they do not say what they are or do not offer them: what
lacks, and the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kindling_operator.model.names import (
    GPU_RESOURCE,
    LABEL_GPU_COUNT,
    LABEL_GPU_MAJOR,
    LABEL_GPU_MEMORY,
    LABEL_GPU_PRODUCT,
)
from kindling_operator.model.objects import NodeView
from kindling_operator.plan.fleet import Fleet
from kindling_operator.plan.listing import few

_PRESENT = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels of nodes that have an NVIDIA device, by NVIDIA's and by Node Feature Discovery."""
_MIG, _COUNT = "nvidia.com/mig-", ".count"
"""Around a profile: labels of the mixed MIG strategy, under which each profile is a resource of its
own (k8s-device-plugin, docs/gpu-feature-discovery/README.md)."""
_COUNT_DIGITS = 3
_CLASS = "gpu.nvidia.com"
"""The DeviceClass that NVIDIA's driver for dynamic resource allocation brings."""


def unplannable(fleet: Fleet) -> Iterator[str]:
    """One part of a sentence for each way in which nodes are silent."""
    silent = [node for node in fleet.nodes if node.gpus and fleet.classes[node.name] is None]
    if silent:
        yield _silent_text(silent)
    bare = [node for node in fleet.nodes if offers_nothing(node)]
    if whole := [node for node in bare if not _profiles(node)]:
        yield _bare_text(whole)
    if cut := [node for node in bare if _profiles(node)]:
        profiles = sorted({profile for node in cut for profile in _profiles(node)})
        yield (
            f"{_nodes(cut)} {_verb(cut, 'offer')} MIG slices by profile alone, {few(profiles)}"
            " (choose MIG strategy single, or switch MIG off)"
        )
    claimed = [node for node in fleet.nodes if node.claim_gpus]
    if claimed:
        gpus = sum(node.claim_gpus for node in claimed)
        yield (
            f"{gpus} GPUs of {_nodes(claimed)} are handed out by ResourceClaims alone (set"
            f" extendedResourceName: {GPU_RESOURCE} in DeviceClass {_CLASS}, or run NVIDIA's device"
            " plugin there)"
        )


def offers_nothing(node: NodeView) -> bool:
    """Whether a node has a GPU by its labels and gives none to pods, nor to a ResourceClaim."""
    return not node.gpus and not node.claim_gpus and any(_says(node))


def gpus_by_label(node: NodeView) -> int:
    """GPUs that a node has, whoever may have them; 0 where it does not say."""
    count = node.labels.get(LABEL_GPU_COUNT, "")
    return int(count) if count.isdecimal() and len(count) <= _COUNT_DIGITS else 0


def _bare_text(nodes: list[NodeView]) -> str:
    counts: Counter[str] = Counter()
    for node in nodes:
        counts[next(_says(node))] += gpus_by_label(node)
    says = [f"{count} x {what}" if count else what for what, count in sorted(counts.items())]
    whose = "its labels say" if len(nodes) == 1 else "their labels say"
    return (
        f"{_nodes(nodes)} {_verb(nodes, 'offer')} no {GPU_RESOURCE}, though {whose} {few(says)}"
        " (run NVIDIA's device plugin there, or see why it fails with kubectl describe node"
        f" {nodes[0].name})"
    )


def _says(node: NodeView) -> Iterator[str]:
    """What the labels of a node say of its GPUs, the most telling first."""
    if node.gpu_product:
        yield node.gpu_product
    if node.gpu_hint:
        yield node.gpu_hint
    yield from (f"{label}=true" for label in _PRESENT if node.labels.get(label) == "true")


def _profiles(node: NodeView) -> list[str]:
    """The resources of a node's MIG slices under the mixed strategy."""
    labels = (each for each in node.labels if each.startswith(_MIG) and each.endswith(_COUNT))
    return [label.removesuffix(_COUNT) for label in labels]


def _silent_text(silent: list[NodeView]) -> str:
    lacking = sorted({label for node in silent for label in _lacking(node)})
    hint = next((node.gpu_hint for node in silent if node.gpu_hint), "")
    said = f", where {hint}" if hint else ""
    return (
        f"{_nodes(silent)} {_verb(silent, 'lack')} {', '.join(lacking)}{said} (run NVIDIA's GPU"
        " feature discovery there, or set the labels)"
    )


def _lacking(node: NodeView) -> Iterator[str]:
    """The labels that would have told."""
    if not node.gpu_product:
        yield LABEL_GPU_PRODUCT
    if not node.gpu_memory:
        yield LABEL_GPU_MEMORY
    if not node.compute and LABEL_GPU_MAJOR not in node.labels:
        yield LABEL_GPU_MAJOR


def _nodes(nodes: list[NodeView]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0].name}"
    return f"{len(nodes)} nodes ({nodes[0].name}, ...)"


def _verb(nodes: list[NodeView], verb: str) -> str:
    return f"{verb}s" if len(nodes) == 1 else verb
