"""What the memory of a GPU and of a pod is for, line by line, in bytes.

A line is Exact where it follows from the architecture, Measured where a replica of this plan has
reported it, and Estimated otherwise. An estimate carries a margin of a tenth, because what it
leaves over is lost and what it misses ends a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from kindling_operator.model.architecture import (
    Architecture,
    AttentionKind,
    Checkpoint,
    Modality,
)
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan.weights import gpu_weights, weight_parts

MIB = 1 << 20
GIB = 1 << 30

GPU_UTILIZATION_PERCENT = 92
"""Share of a GPU that vLLM takes (vLLM 0.33.0, config/cache.py: gpu_memory_utilization 0.92)."""
MARGIN_PERCENT = 10
"""What an estimate adds to the value that it is made from."""

WEIGHTS = "Weights"
"""A measured line of this name stands for all lines of weights: vLLM reports their sum."""
ACTIVATIONS = "Activations"
"""A measured line of this name holds the logits too: vLLM reports the peak of a whole step."""
LOGITS = "Logits"
HOST_TIER = "Host KV tier"
ENCODER_TIER = "Encoder tier"
"""A file in /dev/shm too (vLLM 0.33.0, ec_connector/cpu/ec_shared_region.py)."""
SHARED_MEMORY = "Shared memory"

_ACTIVATION_WIDTHS = 25
"""Residual streams alive at once: Flint's 0.77 GiB at 8,192 tokens, measured on one H200. A
12-layer cut of Inkling took 14."""
_LOGIT_BYTES = 6
"""A logit of a sampled token: bfloat16 and its float32 copy."""
_CUDA_GRAPHS = 480 * MIB
"""vLLM set 0.47 GiB aside for Flint's graphs before capture, and used 0.05 (one H200)."""
_DRAFT_GRAPHS = 128 * MIB
"""Graphs of the prediction layers; not measured."""
_CUDA_CONTEXT = 460 * MIB
"""CUDA context and libraries: 0.45 GiB beside Flint's weights (measured on one H200)."""
_NCCL = 512 * MIB
_ALL_REDUCE_STREAMS = 11
"""Buffers of NCCL and of the all-reduce kernels on each of several GPUs: a fixed part, and one of
residual streams. Two H200 with tensor parallelism took 1.53 GiB in batches of 8,192 and 1.01 of
4,096 (12-layer cut of Inkling) beside weights, context and fused collective."""
_NCCL_BETWEEN_NODES = 512 * MIB
"""More of it where ranks do not share a node: 1.27 GiB (7-layer cut of Flint, batches of 8,192)."""
_LAMPORT_BUFFERS = 2 * 3
"""Inkling's fused collective keeps two sets of three (vLLM 0.33.0, models/inkling/nvidia/ops/
lamport.py:500-545), each of one residual stream of at most `_LAMPORT_TOKENS`."""
_LAMPORT_TOKENS = 16_384
_LAMPORT_RANKS = (2, 4, 8)
_ENCODER_TOKENS = 12_000
"""Encoder cache with towers on: "a budget of 12000 tokens" (12-layer cut of Inkling, one H200)."""

_CPU_PROCESSES = 3 * GIB
"""API server, engine and worker of vLLM 0.32 on CPU: 2.9 GB resident with 1 GiB of KV cache."""
_CPU_SHARED = 512 * MIB
"""/dev/shm on CPU: two sparse files of 252 and 168 MB."""
_GPU_PROCESSES = 8 * GIB
_GPU_WORKER = 8 * GIB
"""Host memory of API server and engine, and of each GPU's worker with its loader; not measured."""
_GPU_SHARED = 1536 * MIB
_GPU_SHARED_EACH = 512 * MIB
"""/dev/shm: queues between processes, and NCCL's of each GPU; not measured."""
_PAGE_CACHE_EACH = 4 * GIB
"""Weights that a rank has read and not yet copied: a shard. The kernel takes it back on demand."""
_JIT_CACHES = 1 * GIB
"""32 MB of FlashInfer and Triton kernels (Flint, one H200), CuTe kernels, logs; on disk."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the engine is told to be ready for.

    `batched_tokens` per step and `sequences` at once, `draft` drafted tokens per step, `modalities`
    of the requests.
    """

    batched_tokens: int
    sequences: int
    draft: int = 0
    modalities: tuple[Modality, ...] = ()


def gpu_usable(gpu_bytes: int) -> int:
    """Bytes of one GPU that vLLM plans with (vLLM 0.33.0, v1/worker/utils.py:716-761)."""
    return ceil(gpu_bytes * GPU_UTILIZATION_PERCENT / 100)


def gpu_with_usable(usable: int) -> int:
    """Bytes of the smallest GPU of which vLLM plans with so many."""
    return -(-usable * 100 // GPU_UTILIZATION_PERCENT)


def gpu_items(
    architecture: Architecture, checkpoint: Checkpoint, layout: Layout, load: EngineLoad
) -> tuple[MemoryItem, ...]:
    """What the fullest GPU of a layout holds beside the KV cache."""
    weights = _weights(architecture, checkpoint, layout, load.draft, frozenset(load.modalities))
    step = (*_step_items(architecture, layout, load), *_fixed_items(architecture, layout, load))
    return (*weights, *step)


def with_measured(
    items: tuple[MemoryItem, ...], measured: Mapping[str, int]
) -> tuple[MemoryItem, ...]:
    """The lines of one GPU with what a replica of the same plan measured in their places, in bytes
    by the name of a line; those of weights come first, up to the activations."""
    names = [item.item for item in items]
    first = names.index(ACTIVATIONS) if ACTIVATIONS in names else 0
    weights, rest = items[:first], items[first:]
    if WEIGHTS in measured and weights:
        weights = (MemoryItem(item=WEIGHTS, bytes=measured[WEIGHTS], basis=Basis.MEASURED),)
    if ACTIVATIONS in measured:
        rest = tuple(item for item in rest if item.item != LOGITS)
    return (*weights, *(_told(item, measured) for item in rest))


@lru_cache(maxsize=4096)
def _weights(
    architecture: Architecture,
    checkpoint: Checkpoint,
    layout: Layout,
    draft: int,
    modalities: frozenset[Modality],
) -> tuple[MemoryItem, ...]:
    """Whatever the size of a step and whoever asks."""
    parts = weight_parts(architecture, checkpoint, draft=draft, modalities=modalities)
    return gpu_weights(parts, architecture, layout)


def _told(item: MemoryItem, measured: Mapping[str, int]) -> MemoryItem:
    if item.item not in measured:
        return item
    return MemoryItem(item=item.item, bytes=measured[item.item], basis=Basis.MEASURED)


def _step_items(
    architecture: Architecture, layout: Layout, load: EngineLoad
) -> tuple[MemoryItem, ...]:
    """What one step of the engine needs at its peak."""
    stream = architecture.hidden_size * 2
    items = [_estimate(ACTIVATIONS, load.batched_tokens * stream * _ACTIVATION_WIDTHS)]
    rows = load.sequences * (1 + load.draft)
    items.append(_estimate(LOGITS, rows * architecture.vocabulary_size * _LOGIT_BYTES))
    if layout.data > 1 and architecture.experts is not None:
        # Each rank's experts see the tokens of all data-parallel ranks, and give them back.
        gathered = layout.data * load.batched_tokens * stream * 2
        items.append(_estimate("Expert exchange", gathered))
    if any(tower.modality in load.modalities for tower in architecture.towers):
        items.append(_estimate("Encoder cache", _ENCODER_TOKENS * stream))
    return tuple(items)


def _fixed_items(
    architecture: Architecture, layout: Layout, load: EngineLoad
) -> tuple[MemoryItem, ...]:
    """What stays, whatever the step."""
    items = [_estimate("CUDA graphs", _CUDA_GRAPHS + (_DRAFT_GRAPHS if load.draft else 0))]
    if layout.gpus > 1:
        streams = _ALL_REDUCE_STREAMS * load.batched_tokens * architecture.hidden_size * 2
        apart = _NCCL_BETWEEN_NODES if layout.nodes > 1 else 0
        items.append(_estimate("NCCL buffers", _NCCL + streams + apart))
    fused = any(group.kind is AttentionKind.CONV for group in architecture.attention)
    if fused and layout.tensor in _LAMPORT_RANKS:
        tokens = min(load.batched_tokens, _LAMPORT_TOKENS)
        size = _LAMPORT_BUFFERS * tokens * architecture.hidden_size * 2
        items.append(MemoryItem(item="Lamport buffers", bytes=size, basis=Basis.EXACT))
    items.append(_estimate("CUDA context", _CUDA_CONTEXT))
    return tuple(items)


def pod_items(
    checkpoint: Checkpoint,
    layout: Layout = ONE_GPU,
    *,
    host_tier: int = 0,
    encoder: int = 0,
) -> tuple[MemoryItem, ...]:
    """Host memory of one pod of a layout; `host_tier` is the KV tier of all its ranks together,
    `encoder` the cache of encoded images and audio.

    Weights pass through the page cache, which counts against the pod's limit until the kernel
    takes it back. The tier is one file in /dev/shm for each engine, whatever its ranks.
    """
    gpus = layout.gpus_per_node
    cache = min(checkpoint.bytes, gpus * _PAGE_CACHE_EACH)
    items = [
        _about("Processes", _GPU_PROCESSES + gpus * _GPU_WORKER),
        _about("Page cache of weights", cache),
        _about(SHARED_MEMORY, _GPU_SHARED + gpus * _GPU_SHARED_EACH),
    ]
    if host_tier:
        items.append(MemoryItem(item=HOST_TIER, bytes=host_tier, basis=Basis.EXACT))
    if encoder:
        items.append(MemoryItem(item=ENCODER_TIER, bytes=encoder, basis=Basis.EXACT))
    return tuple(items)


def cpu_pod_items(checkpoint: Checkpoint, kv_bytes: int) -> tuple[MemoryItem, ...]:
    """Memory of a pod that computes on CPU: everything is in it."""
    return (
        MemoryItem(item=WEIGHTS, bytes=checkpoint.bytes, basis=Basis.EXACT),
        kv_item(kv_bytes, Basis.EXACT),
        _about("Processes", _CPU_PROCESSES),
        _about(SHARED_MEMORY, _CPU_SHARED),
    )


def download_room(size: int) -> int:
    """Bytes of a volume that takes a download of about `size`: a repository holds more than the
    tensors, and an estimate of them is only that."""
    return size + size // 20 + GIB


def storage_items(*, downloaded: int = 0) -> tuple[MemoryItem, ...]:
    """Ephemeral storage of a pod: caches, and `downloaded` bytes of weights on no volume."""
    items = [_about("Kernel caches and logs", _JIT_CACHES)]
    if downloaded:
        items.append(MemoryItem(item="Downloaded weights", bytes=downloaded, basis=Basis.EXACT))
    return tuple(items)


def kv_item(kv_bytes: int, basis: Basis) -> MemoryItem:
    """The KV cache's line."""
    return MemoryItem(item="KV cache", bytes=kv_bytes, basis=basis)


def total(items: Iterable[MemoryItem]) -> int:
    """Bytes of all lines."""
    return sum(item.bytes for item in items)


def shared_memory(items: Iterable[MemoryItem]) -> int:
    """Bytes of /dev/shm among a pod's lines."""
    return total(item for item in items if item.item in (SHARED_MEMORY, HOST_TIER, ENCODER_TIER))


def _estimate(item: str, size: int) -> MemoryItem:
    """An estimate on a GPU, with its margin."""
    with_margin = -(-size * (100 + MARGIN_PERCENT) // 100)
    return MemoryItem(item=item, bytes=with_margin, basis=Basis.ESTIMATED)


def _about(item: str, size: int) -> MemoryItem:
    """A round value in a pod, whose constants are above what was seen already."""
    return MemoryItem(item=item, bytes=size, basis=Basis.ESTIMATED)
