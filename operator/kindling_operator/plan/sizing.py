"""One candidate against the memory of its device: does it fit, with which limits, for what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from kindling_operator.model.api_placement import ExtraResources, Runtime
from kindling_operator.model.architecture import Checkpoint, Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import KVBudget
from kindling_operator.model.quantities import format_bytes, quantity_bytes, quantity_millis
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan import memory
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.kv import (
    KVLayout,
    bytes_needed,
    kv_budget,
    kv_layout,
    longest_context,
    requests_at_once,
)
from kindling_operator.plan.listing import lowered
from kindling_operator.plan.media import encoder_bytes
from kindling_operator.plan.offload import kv_layout_of
from kindling_operator.plan.subject import Subject

DEFAULT_CONTEXT = 131_072
"""What "the fewest GPUs" must hold if the user asks for no context."""
BATCHED_TOKENS = (8192, 4096, 2048)
"""Tokens of one step, the largest that leaves enough KV cache: every token in flight keeps blocks
of the sliding windows and convolutions for each request (vLLM's contract, sections 1.2 and 4)."""
SEQUENCES = 256
"""Requests of one step, where nothing asks for more: vLLM's own 1,024 costs logits and graphs."""
DRAFTING_SEQUENCES = 64
"""With drafts each request has several tokens in a step; larger batches draft at a loss."""

_CONTEXT_STEP = 1024
"""A context that nobody asked for is a round number."""
_LEAST_CONTEXT = 16
"""The smallest that the API takes."""
_CPU_SEQUENCES = 16
_CPU_MILLIS = 500
"""Idle between requests; a thread per further whole CPU."""
_GPU_POD_MILLIS = 3000
"""API server, engine loop and its helpers keep cores busy under load."""
_WORKER_MILLIS = 1000
"""Each GPU's worker keeps one core busy."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What vLLM is told and how it counts.

    `in_flight` is how many batches may be under way when a window moves on, `draft` the tokens
    drafted per step.
    """

    block_tokens: int
    batched_tokens: int
    sequences: int
    in_flight: int
    draft: int = 0


@dataclass(frozen=True, slots=True)
class Sizing:
    """The numbers of a plan that fits. Memory in bytes, CPU in millicores.

    `kv` is the pool of one data-parallel rank, as its engine logs it; `per_gpu` is of the fullest
    GPU, `per_pod` of each pod. `host_tier` is part of `per_pod`. `why` explains the batched tokens
    where they are fewer than usual.
    """

    context: int
    batched_tokens: int
    sequences: int
    kv: KVBudget
    per_gpu: tuple[MemoryItem, ...]
    per_pod: tuple[MemoryItem, ...]
    cpu_millis: int
    memory: int
    host_tier: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a candidate does not fit; `short` is the number of bytes that lack on each GPU.

    `shortfall` is the sentence without its end, `way_out` how it ends if nobody knows better;
    `less_would_do` tells that the way out asks for less instead of for more GPUs.
    """

    reason: Reason
    shortfall: str
    way_out: str
    short: int
    less_would_do: bool = False

    @property
    def message(self) -> str:
        return f"{self.shortfall}: {self.way_out}."


@dataclass(frozen=True, slots=True)
class _Pool:
    """A KV cache to be: its blocks, the engine's limits, and the requests that it must hold."""

    layout: KVLayout
    limits: EngineLimits
    concurrency: int

    @property
    def in_flight(self) -> int:
        """Tokens that may be scheduled before a window moves on."""
        return self.limits.in_flight * self.limits.batched_tokens

    def needed(self, context: int) -> int:
        """Bytes for every request at full context."""
        per_request = self.layout.blocks_per_request(
            context, in_flight=self.in_flight, draft=self.limits.draft
        )
        return bytes_needed(
            self.layout, blocks_per_request=per_request, concurrency=self.concurrency
        )

    def longest(self, size: int, *, at_most: int) -> int:
        """The longest context that `size` bytes hold, 0 for none."""
        return longest_context(
            self.layout,
            pool_bytes=size,
            at_most=at_most,
            concurrency=self.concurrency,
            in_flight=self.in_flight + max(0, self.limits.draft - 1),
        )

    def budget(self, size: int, context: int) -> KVBudget:
        return kv_budget(
            self.layout,
            pool_bytes=size,
            context=context,
            in_flight=self.in_flight,
            draft=self.limits.draft,
        )


def wanted_context(subject: Subject) -> int:
    """The context that a plan must hold: as asked, or what "fits" means where nothing is."""
    asked = subject.spec.serving.context_length
    return asked or min(subject.architecture.context_length, DEFAULT_CONTEXT)


def cpu_sizing(subject: Subject, checkpoint: Checkpoint) -> Sizing:
    """A pod that computes on CPU: it asks for the memory that the KV cache needs."""
    facts, concurrency = runtime_for(subject, Device.CPU), subject.spec.serving.concurrency
    limits = EngineLimits(
        block_tokens=facts.block_tokens,
        batched_tokens=facts.batched_tokens,
        sequences=max(_CPU_SEQUENCES, concurrency),
        in_flight=facts.in_flight,
    )
    layout = kv_layout(subject.architecture, block_tokens=limits.block_tokens)
    pool = _Pool(layout, limits, concurrency)
    # VLLM_CPU_KVCACHE_SPACE is a whole number of GiB.
    size = -(-pool.needed(wanted_context(subject)) // memory.GIB) * memory.GIB
    pod = memory.cpu_pod_items(checkpoint, size)
    return _sizing(subject, pool, size=size, per_gpu=(), per_pod=pod, cpu_millis=_CPU_MILLIS)


def gpu_sizing(candidate: Candidate) -> Sizing | Misfit:
    """What a candidate holds with the most batched tokens that leave enough KV cache.

    A misfit is told for the fewest.
    """
    *more, fewest = BATCHED_TOKENS
    least = _sized(candidate, fewest)
    if isinstance(least, Misfit):
        return least
    misfit: Misfit | None = None
    for tokens in more:
        found = _sized(candidate, tokens)
        if isinstance(found, Sizing):
            return found if misfit is None else replace(found, why=_why_so_few(tokens, misfit))
        misfit = found
    return least if misfit is None else replace(least, why=_why_so_few(fewest, misfit))


def least_gpu_memory(candidate: Candidate) -> int:
    """Bytes that each GPU must have for the wanted context, whatever the candidate's GPU has."""
    fixed, pool = _parts(candidate, BATCHED_TOKENS[-1])
    needed = memory.total(fixed) + pool.needed(wanted_context(candidate.subject))
    return memory.gpu_with_usable(needed)


def pod_lines(candidate: Candidate, *, host_tier: int = 0) -> tuple[MemoryItem, ...]:
    """The host memory of one pod, with the KV tier and what the user wants on top."""
    pod = memory.pod_items(
        candidate.checkpoint,
        candidate.layout,
        host_tier=host_tier,
        encoder=encoder_bytes(candidate.subject),
    )
    return _with_asked(candidate.subject, pod)


def _why_so_few(tokens: int, misfit: Misfit) -> str:
    """Why no more tokens are batched, where more leave too little."""
    more = BATCHED_TOKENS[BATCHED_TOKENS.index(tokens) - 1]
    return f"{tokens} tokens per step, as {more} leave too little: {lowered(misfit.shortfall)}."


def _sized(candidate: Candidate, batched_tokens: int) -> Sizing | Misfit:
    fixed, pool = _parts(candidate, batched_tokens)
    size = memory.gpu_usable(candidate.gpu.memory) - memory.total(fixed)
    if size <= 0:
        return _weights_misfit(candidate, fixed)
    if pool.needed(wanted_context(candidate.subject)) > size:
        return _context_misfit(candidate, pool, size)
    return _sizing(
        candidate.subject,
        pool,
        size=size,
        per_gpu=(*fixed, memory.kv_item(size, Basis.ESTIMATED)),
        per_pod=memory.pod_items(candidate.checkpoint, candidate.layout),
        cpu_millis=_GPU_POD_MILLIS + candidate.layout.gpus_per_node * _WORKER_MILLIS,
    )


def _parts(candidate: Candidate, batched_tokens: int) -> tuple[tuple[MemoryItem, ...], _Pool]:
    """What a GPU holds beside the KV cache, and what that cache will be made of."""
    subject, shape = candidate.subject, candidate.layout
    limits = _gpu_limits(candidate, batched_tokens)
    load = memory.EngineLoad(
        context=wanted_context(subject),
        batched_tokens=batched_tokens,
        sequences=limits.sequences,
        draft=candidate.draft,
        modalities=subject.modalities,
    )
    fixed = memory.gpu_items(subject.architecture, candidate.checkpoint, shape, load)
    concurrency = ceil(subject.spec.serving.concurrency / shape.data)
    return fixed, _Pool(kv_layout_of(candidate), limits, concurrency)


def _gpu_limits(candidate: Candidate, batched_tokens: int) -> EngineLimits:
    facts = runtime_for(candidate.subject, Device.GPU)
    most = DRAFTING_SEQUENCES if candidate.draft else SEQUENCES
    per_rank = ceil(candidate.subject.spec.serving.concurrency / candidate.layout.data)
    return EngineLimits(
        block_tokens=facts.block_tokens,
        batched_tokens=batched_tokens,
        sequences=max(most, per_rank),
        # One more batch is under way for each further stage (vLLM 0.33.0, config/vllm.py:588-609).
        in_flight=facts.in_flight + candidate.layout.pipeline - 1,
        draft=candidate.draft,
    )


def _sizing(
    subject: Subject,
    pool: _Pool,
    *,
    size: int,
    per_gpu: tuple[MemoryItem, ...],
    per_pod: tuple[MemoryItem, ...],
    cpu_millis: int,
) -> Sizing:
    context = _context(subject, pool, size)
    extra = _asked(subject)
    per_pod = _with_asked(subject, per_pod)
    return Sizing(
        context=context,
        batched_tokens=pool.limits.batched_tokens,
        sequences=pool.limits.sequences,
        kv=pool.budget(size, context),
        per_gpu=per_gpu,
        per_pod=per_pod,
        cpu_millis=cpu_millis + (quantity_millis(extra.cpu) if extra.cpu else 0),
        memory=memory.total(per_pod),
    )


def _asked(subject: Subject) -> ExtraResources:
    """What the user wants on top."""
    runtime = subject.spec.runtime or Runtime()
    return runtime.resources or ExtraResources()


def _with_asked(subject: Subject, per_pod: tuple[MemoryItem, ...]) -> tuple[MemoryItem, ...]:
    """With the memory that the user wants on top."""
    extra = _asked(subject)
    more = quantity_bytes(extra.memory) if extra.memory else 0
    if not more:
        return per_pod
    return (
        *per_pod,
        MemoryItem(item="spec.runtime.resources", bytes=more, basis=Basis.EXACT),
    )


def _context(subject: Subject, pool: _Pool, size: int) -> int:
    """As asked, or the longest round context that the pool holds, the model's own included."""
    at_least = wanted_context(subject)
    if subject.spec.serving.context_length is not None:
        return at_least
    most = subject.architecture.context_length
    longest = pool.longest(size, at_most=most)
    return most if longest == most else max(at_least, longest // _CONTEXT_STEP * _CONTEXT_STEP)


def _weights_misfit(candidate: Candidate, fixed: tuple[MemoryItem, ...]) -> Misfit:
    usable, needed = memory.gpu_usable(candidate.gpu.memory), memory.total(fixed)
    weights = memory.total(item for item in fixed if item.basis is Basis.EXACT)
    model = f"{candidate.subject.entry.title} {candidate.checkpoint.name.value}"
    return Misfit(
        Reason.WEIGHTS_DO_NOT_FIT,
        f"{model} needs {format_bytes(needed)} on {_each(candidate)}, {format_bytes(weights)} of it"
        f" weights, and {candidate.gpu.product} has {format_bytes(usable)} usable, short by"
        f" {format_bytes(needed - usable)}",
        "use more GPUs, larger ones or a smaller checkpoint",
        needed - usable,
    )


def _context_misfit(candidate: Candidate, pool: _Pool, size: int) -> Misfit:
    context = wanted_context(candidate.subject)
    needed = pool.needed(context)
    longest = pool.longest(size, at_most=context)
    concurrency = candidate.subject.spec.serving.concurrency
    requests = requests_at_once(pool.budget(size, context)) * candidate.layout.data
    ways = [f"contextLength to {longest}"] if longest >= _LEAST_CONTEXT else []
    ways += [f"concurrency to {requests}"] if requests >= 1 else []
    return Misfit(
        Reason.CONTEXT_DOES_NOT_FIT,
        f"A context of {context} tokens at concurrency {concurrency} needs {format_bytes(needed)}"
        f" of KV cache on {_each(candidate)} and {format_bytes(size)} are left on"
        f" {candidate.gpu.product}, short by {format_bytes(needed - size)}",
        f"lower {' or '.join(ways)}" if ways else "use more GPUs or larger ones",
        needed - size,
        less_would_do=bool(ways),
    )


def _each(candidate: Candidate) -> str:
    """One GPU of the layout, in words."""
    if candidate.layout.gpus == 1:
        return "one GPU"
    return f"each of {candidate.layout.gpus} GPUs ({candidate.layout.name})"
