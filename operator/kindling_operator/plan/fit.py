"""Does an engine hold what is wanted: a candidate's memory against the memory of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import ClassVar

from kindling_operator.model.architecture import Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import KVBudget
from kindling_operator.model.quantities import format_bytes
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan import memory
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.kv import (
    KVLayout,
    bytes_needed,
    kv_budget,
    longest_context,
    requests_at_once,
)
from kindling_operator.plan.offload import kv_layout_of

_LEAST_CONTEXT = 16
"""The smallest that the API takes."""


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
class KVPool:
    """A KV cache to be: its blocks and the engine's limits."""

    layout: KVLayout
    limits: EngineLimits

    @property
    def in_flight(self) -> int:
        """Tokens that may be scheduled before a window moves on."""
        return self.limits.in_flight * self.limits.batched_tokens

    def needed(self, context: int, concurrency: int) -> int:
        """Bytes for so many requests at full context."""
        per_request = self.layout.blocks_per_request(
            context, in_flight=self.in_flight, draft=self.limits.draft
        )
        return bytes_needed(self.layout, blocks_per_request=per_request, concurrency=concurrency)

    def longest(self, size: int, concurrency: int, *, at_most: int) -> int:
        """The longest context of so many requests that `size` bytes hold, 0 for none."""
        return longest_context(
            self.layout,
            pool_bytes=size,
            at_most=at_most,
            concurrency=concurrency,
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a replica must hold: `concurrency` requests at once, each of `context` tokens."""

    context: int
    concurrency: int

    def per_rank(self, layout: Layout) -> int:
        """Requests of one data-parallel rank."""
        return ceil(self.concurrency / layout.data)


@dataclass(frozen=True, eq=False)
class Engine:
    """A candidate's engine with so many tokens and sequences in a step, for any context.

    What follows from these alone is counted once.
    """

    candidate: Candidate
    batched_tokens: int
    sequences: int

    @cached_property
    def limits(self) -> EngineLimits:
        facts, layout = runtime_for(self.candidate.subject, Device.GPU), self.candidate.layout
        return EngineLimits(
            block_tokens=facts.block_tokens,
            batched_tokens=self.batched_tokens,
            sequences=self.sequences,
            # One more batch is under way for each further stage (vLLM 0.33.0,
            # config/vllm.py:588-609).
            in_flight=facts.in_flight + layout.pipeline - 1,
            draft=self.candidate.draft,
        )

    @cached_property
    def fixed(self) -> tuple[MemoryItem, ...]:
        """What a GPU holds beside the KV cache."""
        way, subject = self.candidate, self.candidate.subject
        load = memory.EngineLoad(
            batched_tokens=self.batched_tokens,
            sequences=self.sequences,
            draft=way.draft,
            modalities=subject.modalities,
        )
        return memory.gpu_items(subject.architecture, way.checkpoint, way.layout, load)

    @cached_property
    def taken(self) -> int:
        """Bytes of a GPU beside the KV cache."""
        return memory.total(self.fixed)

    @cached_property
    def left(self) -> int:
        """Bytes of a GPU for the KV cache; less than none where not even the weights fit."""
        return memory.gpu_usable(self.candidate.gpu.memory) - self.taken

    @cached_property
    def pool(self) -> KVPool:
        """The KV cache of one rank."""
        return KVPool(kv_layout_of(self.candidate), self.limits)

    def misfit(self, wanted: Wanted) -> Misfit | None:
        """Why it does not hold what is wanted, or None."""
        if self.left <= 0:
            return self._too_heavy
        needed = self.pool.needed(wanted.context, wanted.per_rank(self.candidate.layout))
        return ContextMisfit(self, needed - self.left, wanted) if needed > self.left else None

    @cached_property
    def _too_heavy(self) -> WeightsMisfit:
        return WeightsMisfit(self, -self.left)


@dataclass(frozen=True)
class Misfit:
    """Why an engine does not hold what is wanted; `short` bytes lack on each GPU.

    `shortfall` is the sentence without its end, `way_out` how it ends if nobody knows better;
    `less_would_do` tells that the way out asks for less instead of for more GPUs. The words are
    found when they are read: nobody reads those of most candidates.
    """

    engine: Engine
    short: int

    reason: ClassVar[Reason]

    @property
    def shortfall(self) -> str:
        raise NotImplementedError

    @property
    def way_out(self) -> str:
        raise NotImplementedError

    @property
    def less_would_do(self) -> bool:
        return False

    @cached_property
    def message(self) -> str:
        return f"{self.shortfall}: {self.way_out}."


class WeightsMisfit(Misfit):
    """Not even a KV cache of nothing is left, whatever is wanted."""

    reason = Reason.WEIGHTS_DO_NOT_FIT

    @property
    def shortfall(self) -> str:
        fixed, candidate = self.engine.fixed, self.engine.candidate
        weights = memory.total(item for item in fixed if item.basis is Basis.EXACT)
        model = f"{candidate.subject.entry.title} {candidate.checkpoint.name.value}"
        return (
            f"{model} needs {format_bytes(self.engine.taken)} on {_each(candidate)},"
            f" {format_bytes(weights)} of it weights, and {candidate.gpu.product} has"
            f" {format_bytes(memory.gpu_usable(candidate.gpu.memory))} usable, short by"
            f" {format_bytes(self.short)}"
        )

    @property
    def way_out(self) -> str:
        return "use more GPUs, larger ones or a smaller checkpoint"


@dataclass(frozen=True)
class ContextMisfit(Misfit):
    """The KV cache is too small for the requests."""

    wanted: Wanted

    reason = Reason.CONTEXT_DOES_NOT_FIT

    @property
    def shortfall(self) -> str:
        left, candidate = self.engine.left, self.engine.candidate
        return (
            f"A context of {self.wanted.context} tokens at concurrency {self.wanted.concurrency}"
            f" needs {format_bytes(left + self.short)} of KV cache on {_each(candidate)} and"
            f" {format_bytes(left)} are left on {candidate.gpu.product}, short by"
            f" {format_bytes(self.short)}"
        )

    @property
    def way_out(self) -> str:
        ways = self._ways()
        return f"lower {' or '.join(ways)}" if ways else "use more GPUs or larger ones"

    @property
    def less_would_do(self) -> bool:
        return bool(self._ways())

    def _ways(self) -> list[str]:
        """What would fit, as fields of the spec."""
        context, left = self.wanted.context, self.engine.left
        pool, layout = self.engine.pool, self.engine.candidate.layout
        longest = pool.longest(left, self.wanted.per_rank(layout), at_most=context)
        requests = requests_at_once(pool.budget(left, context)) * layout.data
        ways = [f"contextLength to {longest}"] if longest >= _LEAST_CONTEXT else []
        return ways + ([f"concurrency to {requests}"] if requests >= 1 else [])


def _each(candidate: Candidate) -> str:
    """One GPU of the layout, in words."""
    if candidate.layout.gpus == 1:
        return "one GPU"
    return f"each of {candidate.layout.gpus} GPUs ({candidate.layout.name})"
