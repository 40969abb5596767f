"""The numbers of a plan that fits: limits of the engine, memory of GPUs and pods, for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kindling_operator.model.api_placement import ExtraResources, Runtime
from kindling_operator.model.architecture import Checkpoint, Device
from kindling_operator.model.plan import KVBudget
from kindling_operator.model.quantities import quantity_bytes, quantity_millis
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan import memory
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.fit import Engine, EngineLimits, KVPool, Misfit, Wanted
from kindling_operator.plan.kv import kv_layout
from kindling_operator.plan.listing import lowered
from kindling_operator.plan.media import encoder_bytes
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
_CPU_SEQUENCES = 16
_CPU_MILLIS = 500
"""Idle between requests; a thread per further whole CPU."""
_GPU_POD_MILLIS = 3000
"""API server, engine loop and its helpers keep cores busy under load."""
_WORKER_MILLIS = 1000
"""Each GPU's worker keeps one core busy."""


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


def wanted_of(subject: Subject) -> Wanted:
    """What the spec wants a replica to hold."""
    return Wanted(wanted_context(subject), subject.spec.serving.concurrency)


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
    pool = KVPool(layout, limits)
    # VLLM_CPU_KVCACHE_SPACE is a whole number of GiB.
    size = -(-pool.needed(wanted_context(subject), concurrency) // memory.GIB) * memory.GIB
    pod = memory.cpu_pod_items(checkpoint, size)
    return _sizing(
        subject,
        pool,
        concurrency,
        size=size,
        per_gpu=(),
        per_pod=pod,
        cpu_millis=_CPU_MILLIS,
    )


def gpu_sizing(candidate: Candidate) -> Sizing | Misfit:
    """What a candidate holds of what its own spec wants."""
    engines = engines_of(candidate, sequences_of(candidate, wanted_of(candidate.subject)))
    return sized(engines, candidate.subject)


def sequences_of(candidate: Candidate, wanted: Wanted) -> int:
    """Requests in a step of one rank."""
    most = DRAFTING_SEQUENCES if candidate.draft else SEQUENCES
    return max(most, wanted.per_rank(candidate.layout))


def engines_of(candidate: Candidate, sequences: int) -> tuple[Engine, ...]:
    """The engine with each number of batched tokens that is considered, the most first."""
    return tuple(Engine(candidate, tokens, sequences) for tokens in BATCHED_TOKENS)


def sized(engines: Sequence[Engine], subject: Subject) -> Sizing | Misfit:
    """What the engine with the most batched tokens holds that leaves enough KV cache.

    A misfit is told for the fewest.
    """
    *more, fewest = engines
    wanted = wanted_of(subject)
    misfit = fewest.misfit(wanted)
    if misfit is not None:
        return misfit
    tight: Misfit | None = None
    for engine in more:
        misfit = engine.misfit(wanted)
        if misfit is None:
            return _gpu_sizing(engine, subject, wanted, tight)
        tight = misfit
    return _gpu_sizing(fewest, subject, wanted, tight)


def least_gpu_memory(candidate: Candidate) -> int:
    """Bytes that each GPU must have for the wanted context, whatever the candidate's GPU has."""
    wanted = wanted_of(candidate.subject)
    engine = engines_of(candidate, sequences_of(candidate, wanted))[-1]
    needed = engine.pool.needed(wanted.context, wanted.per_rank(candidate.layout))
    return memory.gpu_with_usable(engine.taken + needed)


def pod_lines(candidate: Candidate, *, host_tier: int = 0) -> tuple[MemoryItem, ...]:
    """The host memory of one pod, with the KV tier and what the user wants on top."""
    pod = memory.pod_items(
        candidate.checkpoint,
        candidate.layout,
        host_tier=host_tier,
        encoder=encoder_bytes(candidate.subject),
    )
    return _with_asked(candidate.subject, pod)


def _gpu_sizing(engine: Engine, subject: Subject, wanted: Wanted, tight: Misfit | None) -> Sizing:
    """What an engine holds; `tight` is the misfit of the one with the next more batched tokens."""
    size, layout = engine.left, engine.candidate.layout
    return _sizing(
        subject,
        engine.pool,
        wanted.per_rank(layout),
        size=size,
        per_gpu=(*engine.fixed, memory.kv_item(size, Basis.ESTIMATED)),
        per_pod=memory.pod_items(
            engine.candidate.checkpoint, layout, encoder=encoder_bytes(subject)
        ),
        cpu_millis=_GPU_POD_MILLIS + layout.gpus_per_node * _WORKER_MILLIS,
        why=_why_so_few(engine, tight) if tight is not None else "",
    )


def _why_so_few(engine: Engine, tight: Misfit) -> str:
    """Why no more tokens are batched, where more leave too little."""
    return (
        f"{engine.batched_tokens} tokens per step, as {tight.engine.batched_tokens} leave too"
        f" little: {lowered(tight.shortfall)}."
    )


def _sizing(
    subject: Subject,
    pool: KVPool,
    concurrency: int,
    *,
    size: int,
    per_gpu: tuple[MemoryItem, ...],
    per_pod: tuple[MemoryItem, ...],
    cpu_millis: int,
    why: str = "",
) -> Sizing:
    context = _context(subject, pool, concurrency, size)
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
        why=why,
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


def _context(subject: Subject, pool: KVPool, concurrency: int, size: int) -> int:
    """As asked, or the longest round context that the pool holds, the model's own included."""
    at_least = wanted_context(subject)
    if subject.spec.serving.context_length is not None:
        return at_least
    most = subject.architecture.context_length
    longest = pool.longest(size, concurrency, at_most=most)
    return most if longest == most else max(at_least, longest // _CONTEXT_STEP * _CONTEXT_STEP)
