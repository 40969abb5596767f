"""One checkpoint on one device: does it fit, with which context, and what is the memory for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kindling_operator.model.architecture import Checkpoint
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import ONE_GPU
from kindling_operator.model.plan import HostTierPlan, KVBudget
from kindling_operator.model.quantities import format_bytes, quantity_bytes, quantity_millis
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan import memory
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.kv import (
    KVLayout,
    bytes_needed,
    kv_budget,
    kv_layout,
    longest_context,
    requests_at_once,
)
from kindling_operator.plan.media import encoder_bytes
from kindling_operator.plan.offload import host_tier
from kindling_operator.plan.rules.features import asked_host_memory
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.weights import gpu_weights, weight_parts

DEFAULT_CONTEXT = 131_072
"""What "the fewest GPUs" must hold if the user asks for no context."""
_CONTEXT_STEP = 1024
"""A context that nobody asked for is a round number."""
_LEAST_CONTEXT = 16
"""The smallest that the API takes."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What vLLM is told and how it counts on one kind of device.

    `in_flight` is how many batches may be under way when a window moves on.
    """

    block_tokens: int
    batched_tokens: int
    sequences: int
    in_flight: int


CPU_LIMITS = EngineLimits(block_tokens=128, batched_tokens=2048, sequences=16, in_flight=1)
"""vLLM 0.32 on CPU: blocks of 128 tokens, 2,048 batched tokens, no asynchronous scheduling."""
GPU_LIMITS = EngineLimits(block_tokens=16, batched_tokens=8192, sequences=256, in_flight=2)
"""vLLM 0.33.0: blocks of 16 tokens, asynchronous scheduling (config/vllm.py:588-609)."""

_CPU_MILLIS = 500
"""Idle between requests; a thread per further whole CPU."""
_GPU_POD_MILLIS = 4000
"""API server, engine loop and worker each keep a core busy under load."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The numbers of a plan that fits. Memory in bytes, CPU in millicores."""

    context: int
    batched_tokens: int
    sequences: int
    kv: KVBudget
    per_gpu: tuple[MemoryItem, ...]
    per_pod: tuple[MemoryItem, ...]
    cpu_millis: int
    memory: int
    host_tier: HostTierPlan | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a checkpoint does not fit a device; `short` is the number of bytes that lack."""

    reason: Reason
    message: str
    short: int


def cpu_sizing(subject: Subject, checkpoint: Checkpoint) -> Sizing:
    """A pod that computes on CPU: it asks for the memory that the KV cache needs."""
    limits = CPU_LIMITS
    layout = kv_layout(subject.architecture, block_tokens=limits.block_tokens)
    context = _wanted_context(subject)
    needed = _needed(subject, layout, limits, context)
    # VLLM_CPU_KVCACHE_SPACE is a whole number of GiB.
    pool = -(-needed // memory.GIB) * memory.GIB
    context = _context(subject, layout, limits, pool_bytes=pool, at_least=context)
    pod = memory.cpu_pod_items(checkpoint, pool)
    return _sizing(subject, layout, limits, context=context, pool=pool, per_gpu=(), per_pod=pod)


def gpu_sizing(subject: Subject, checkpoint: Checkpoint, gpu: GpuClass) -> Sizing | Misfit:
    """A pod with one GPU: the KV cache gets what the rest leaves over."""
    limits = GPU_LIMITS
    architecture = subject.architecture
    sequences = max(limits.sequences, subject.spec.serving.concurrency)
    load = memory.EngineLoad(
        context=architecture.context_length,
        batched_tokens=limits.batched_tokens,
        sequences=sequences,
        modalities=subject.modalities,
    )
    fixed = memory.gpu_items(architecture, checkpoint, ONE_GPU, load)
    usable = memory.gpu_usable(gpu.memory)
    pool = usable - memory.total(fixed)
    if pool <= 0:
        return _weights_misfit(subject, checkpoint, gpu, short=-pool, usable=usable)
    layout = kv_layout(architecture, block_tokens=limits.block_tokens)
    context = _wanted_context(subject)
    needed = _needed(subject, layout, limits, context)
    if needed > pool:
        return _context_misfit(subject, layout, limits, needed=needed, pool=pool)
    if subject.spec.serving.context_length is None:
        context = _context(subject, layout, limits, pool_bytes=pool, at_least=context)
    per_gpu = (*fixed, memory.kv_item(pool, Basis.ESTIMATED))
    asked = asked_host_memory(subject)
    tier = host_tier(layout, size=asked, tensor=1, draft=0) if asked else None
    pod = memory.pod_items(checkpoint, host_tier=asked or 0, encoder=encoder_bytes(subject))
    sizing = _sizing(
        subject, layout, limits, context=context, pool=pool, per_gpu=per_gpu, per_pod=pod
    )
    return replace(sizing, host_tier=tier)


def _sizing(
    subject: Subject,
    layout: KVLayout,
    limits: EngineLimits,
    *,
    context: int,
    pool: int,
    per_gpu: tuple[MemoryItem, ...],
    per_pod: tuple[MemoryItem, ...],
) -> Sizing:
    extra = subject.spec.runtime.resources if subject.spec.runtime is not None else None
    more_cpu = quantity_millis(extra.cpu) if extra is not None and extra.cpu else 0
    more_memory = quantity_bytes(extra.memory) if extra is not None and extra.memory else 0
    if more_memory:
        asked = MemoryItem(item="spec.runtime.resources", bytes=more_memory, basis=Basis.EXACT)
        per_pod = (*per_pod, asked)
    in_flight = limits.in_flight * limits.batched_tokens
    return Sizing(
        context=context,
        batched_tokens=limits.batched_tokens,
        sequences=max(limits.sequences, subject.spec.serving.concurrency),
        kv=kv_budget(layout, pool_bytes=pool, context=context, in_flight=in_flight),
        per_gpu=per_gpu,
        per_pod=per_pod,
        cpu_millis=(_GPU_POD_MILLIS if per_gpu else _CPU_MILLIS) + more_cpu,
        memory=memory.total(per_pod),
    )


def _wanted_context(subject: Subject) -> int:
    asked = subject.spec.serving.context_length
    return asked or min(subject.architecture.context_length, DEFAULT_CONTEXT)


def _needed(subject: Subject, layout: KVLayout, limits: EngineLimits, context: int) -> int:
    in_flight = limits.in_flight * limits.batched_tokens
    per_request = layout.blocks_per_request(context, in_flight=in_flight)
    concurrency = subject.spec.serving.concurrency
    return bytes_needed(layout, blocks_per_request=per_request, concurrency=concurrency)


def _context(
    subject: Subject, layout: KVLayout, limits: EngineLimits, *, pool_bytes: int, at_least: int
) -> int:
    """The longest round context that the pool holds, the model's own maximum included."""
    if subject.spec.serving.context_length is not None:
        return at_least
    most = subject.architecture.context_length
    longest = longest_context(
        layout,
        pool_bytes=pool_bytes,
        at_most=most,
        concurrency=subject.spec.serving.concurrency,
        in_flight=limits.in_flight * limits.batched_tokens,
    )
    return most if longest == most else max(at_least, longest // _CONTEXT_STEP * _CONTEXT_STEP)


def _weights_misfit(
    subject: Subject, checkpoint: Checkpoint, gpu: GpuClass, *, short: int, usable: int
) -> Misfit:
    parts = weight_parts(subject.architecture, checkpoint, modalities=subject.modalities)
    weights = memory.total(gpu_weights(parts, subject.architecture, ONE_GPU))
    return Misfit(
        Reason.WEIGHTS_DO_NOT_FIT,
        f"{subject.entry.title} {checkpoint.name.value} needs {format_bytes(usable + short)} on"
        f" one GPU, {format_bytes(weights)} of it weights, and {gpu.product} has"
        f" {format_bytes(usable)} usable, short by {format_bytes(short)}: use a larger GPU or a"
        " smaller checkpoint, this version plans one GPU per replica.",
        short,
    )


def _context_misfit(
    subject: Subject, layout: KVLayout, limits: EngineLimits, *, needed: int, pool: int
) -> Misfit:
    context, concurrency = _wanted_context(subject), subject.spec.serving.concurrency
    in_flight = limits.in_flight * limits.batched_tokens
    longest = longest_context(
        layout, pool_bytes=pool, at_most=context, concurrency=concurrency, in_flight=in_flight
    )
    budget = kv_budget(layout, pool_bytes=pool, context=context, in_flight=in_flight)
    requests = requests_at_once(budget)
    ways = [f"contextLength to {longest}"] if longest >= _LEAST_CONTEXT else []
    ways += [f"concurrency to {requests}"] if requests >= 1 else []
    way_out = f"lower {' or '.join(ways)}" if ways else "use a larger GPU"
    return Misfit(
        Reason.CONTEXT_DOES_NOT_FIT,
        f"A context of {context} tokens at concurrency {concurrency} needs {format_bytes(needed)}"
        f" of KV cache and {format_bytes(pool)} are left, short by"
        f" {format_bytes(needed - pool)}: {way_out}.",
        needed - pool,
    )
