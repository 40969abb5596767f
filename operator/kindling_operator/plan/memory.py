"""What the memory of a GPU and of a pod is for, line by line, in bytes.

A line is Exact where it follows from the architecture, Measured where a run of vLLM on such a
device showed it, and Estimated otherwise. Estimates lean to the large side: what they leave over is
lost, what they miss ends a start.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from kindling_operator.model.architecture import Architecture, Checkpoint
from kindling_operator.model.status import Basis, MemoryItem

MIB = 1 << 20
GIB = 1 << 30

GPU_UTILIZATION_PERCENT = 92
"""Share of a GPU that vLLM takes (vLLM 0.33.0, config/cache.py: gpu_memory_utilization 0.92)."""

_ACTIVATION_WIDTHS = 25
"""Residual streams alive at once: Flint's 0.77 GiB at 8,192 tokens, measured on one H200."""
_LOGIT_BYTES = 6
"""A logit of a sampled token: bfloat16 and its float32 copy."""
_CUDA_GRAPHS = 512 * MIB
"""vLLM set 0.47 GiB aside for Flint's graphs before capture (measured on one H200)."""
_NON_TORCH = 512 * MIB
"""CUDA context and libraries: 0.45 GiB beside Flint's weights (measured on one H200)."""

_CPU_PROCESSES = 3 * GIB
"""API server, engine and worker of vLLM 0.32 on CPU: 2.9 GB resident with 1 GiB of KV cache."""
_CPU_SHARED = 512 * MIB
"""/dev/shm on CPU: two sparse files of 252 and 168 MB."""
_GPU_PROCESSES = 16 * GIB
"""Host memory of a GPU engine: staging buffers of the loader and three processes; not measured."""
_GPU_SHARED = 2 * GIB
"""/dev/shm of an engine with one GPU: queues between processes; not measured."""


def gpu_usable(gpu_bytes: int) -> int:
    """Bytes of one GPU that vLLM plans with (vLLM 0.33.0, v1/worker/utils.py:716-761)."""
    return ceil(gpu_bytes * GPU_UTILIZATION_PERCENT / 100)


def gpu_items(
    architecture: Architecture, checkpoint: Checkpoint, *, batched_tokens: int, sequences: int
) -> tuple[MemoryItem, ...]:
    """What one GPU holds beside the KV cache, where one GPU holds the whole model."""
    activations = batched_tokens * architecture.hidden_size * 2 * _ACTIVATION_WIDTHS
    logits = sequences * architecture.vocabulary_size * _LOGIT_BYTES
    return (
        MemoryItem(item="Weights", bytes=checkpoint.bytes, basis=Basis.EXACT),
        MemoryItem(item="Activations", bytes=activations, basis=Basis.ESTIMATED),
        MemoryItem(item="Logits", bytes=logits, basis=Basis.ESTIMATED),
        MemoryItem(item="CUDA graphs", bytes=_CUDA_GRAPHS, basis=Basis.ESTIMATED),
        MemoryItem(item="CUDA context", bytes=_NON_TORCH, basis=Basis.ESTIMATED),
    )


def gpu_pod_items() -> tuple[MemoryItem, ...]:
    """Host memory of a pod with one GPU; weights pass through and do not stay."""
    return (
        MemoryItem(item="Processes", bytes=_GPU_PROCESSES, basis=Basis.ESTIMATED),
        MemoryItem(item="Shared memory", bytes=_GPU_SHARED, basis=Basis.ESTIMATED),
    )


def cpu_pod_items(checkpoint: Checkpoint, kv_bytes: int) -> tuple[MemoryItem, ...]:
    """Memory of a pod that computes on CPU: everything is in it."""
    return (
        MemoryItem(item="Weights", bytes=checkpoint.bytes, basis=Basis.EXACT),
        kv_item(kv_bytes, Basis.EXACT),
        MemoryItem(item="Processes", bytes=_CPU_PROCESSES, basis=Basis.ESTIMATED),
        MemoryItem(item="Shared memory", bytes=_CPU_SHARED, basis=Basis.ESTIMATED),
    )


def kv_item(kv_bytes: int, basis: Basis) -> MemoryItem:
    """The KV cache's line."""
    return MemoryItem(item="KV cache", bytes=kv_bytes, basis=basis)


def total(items: Iterable[MemoryItem]) -> int:
    """Bytes of all lines."""
    return sum(item.bytes for item in items)


def shared_memory(items: Iterable[MemoryItem]) -> int:
    """Bytes of /dev/shm among a pod's lines."""
    return total(item for item in items if item.item == "Shared memory")
