"""Nodes with GPUs that no plan can use, because they do not say what they are: what lacks, and the
way out."""

from __future__ import annotations

from collections.abc import Iterator

from kindling_operator.model.names import (
    GPU_RESOURCE,
    LABEL_GPU_MAJOR,
    LABEL_GPU_MEMORY,
    LABEL_GPU_PRODUCT,
)
from kindling_operator.model.objects import NodeView
from kindling_operator.plan.fleet import Fleet

_CLASS = "gpu.nvidia.com"
"""The DeviceClass that NVIDIA's driver for dynamic resource allocation brings."""


def unplannable(fleet: Fleet) -> Iterator[str]:
    """One part of a sentence for each way in which nodes are silent."""
    silent = [node for node in fleet.nodes if node.gpus and fleet.classes[node.name] is None]
    if silent:
        yield _silent_text(silent)
    claimed = [node for node in fleet.nodes if node.claim_gpus]
    if claimed:
        gpus = sum(node.claim_gpus for node in claimed)
        yield (
            f"{gpus} GPUs of {_nodes(claimed)} are handed out by ResourceClaims alone (set"
            f" extendedResourceName: {GPU_RESOURCE} in DeviceClass {_CLASS}, or run NVIDIA's device"
            " plugin there)"
        )


def _silent_text(silent: list[NodeView]) -> str:
    lacking = sorted({label for node in silent for label in _lacking(node)})
    hint = next((node.gpu_hint for node in silent if node.gpu_hint), "")
    said = f", where {hint}" if hint else ""
    verb = "lacks" if len(silent) == 1 else "lack"
    return (
        f"{_nodes(silent)} {verb} {', '.join(lacking)}{said} (run NVIDIA's GPU feature discovery"
        " there, or set the labels)"
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
