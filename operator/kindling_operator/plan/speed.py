"""How fast one request is answered: a roofline of bytes, links and what engines were measured to
need beside them.

It orders options and drafting depths, and it is shown; nothing is promised by it. Its error
against every measured table is in docs/planner.md and in tests/unit/plan/test_speed.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from kindling_operator.model.architecture import AttentionGroup, AttentionKind, Device
from kindling_operator.model.gpu import EngineSpeed, GpuFacts
from kindling_operator.model.plan import SpeedPlan, SpeedTerm
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.kv import ELEMENT_BYTES
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.weights import Division, WeightPart, weight_parts

NETWORK_BANDWIDTH = 50e9
"""Bytes per second of one GPU to other nodes, one direction: a 400 Gb/s port each (HGX, ND)."""
NETWORK_LATENCY_US = 40.0
"""One exchange between nodes, in microseconds: an estimate, it only orders layouts."""
COMPUTE_SHARE = 0.42
"""Share of a GPU's dense BF16 throughput that long prompts reach: 39 to 46 % were measured on one
H200 (Flint and a cut of Inkling, 32K to 100K)."""
PREFILL_SECONDS = 0.05
"""What a prompt takes beside its operations; a cached prompt was answered in 0.05 to 0.15 s."""

_UNREAD = ("Embedding", "Draft layers", "Draft inputs")
"""Parts of which a forward pass reads next to nothing, or another term tells."""


@dataclass(frozen=True)
class _Step:
    """One forward pass: `requests` per data-parallel rank, each with its drafts, at `context`."""

    candidate: Candidate
    parts: tuple[WeightPart, ...]
    gpu: GpuFacts
    engine: EngineSpeed
    requests: int
    context: int

    @property
    def tokens(self) -> int:
        """Tokens of one rank that pass the model at once."""
        return self.requests * (self.candidate.draft + 1)

    @cached_property
    def experts_read(self) -> float:
        """Share of the routed experts that these tokens choose among them, evenly by chance."""
        experts = self.candidate.subject.architecture.experts
        if experts is None:
            return 1.0
        ranks = self.candidate.layout.data if self.candidate.layout.expert else 1
        return 1 - (1 - experts.per_token / experts.count) ** (self.tokens * ranks)

    def terms(self) -> Iterator[tuple[str, float]]:
        """Seconds of each term."""
        yield "Weights", max(self.weights(), self.operations())
        yield "KV cache", self.kv_cache(self.candidate.subject.architecture.attending)
        yield "Layers", self.candidate.subject.architecture.layers * self.engine.layer_us / 1e6
        yield "All-reduce", 2 * self.candidate.subject.architecture.layers * self.all_reduce()
        yield "Between nodes", self.between_nodes()
        yield "Drafts", self.drafts()

    def weights(self) -> float:
        return sum(self._read(part) for part in self.parts if part.name not in _UNREAD)

    def _read(self, part: WeightPart) -> float:
        """Seconds that the slowest rank reads a part; stages follow each other, so all count."""
        layout = self.candidate.layout
        ways = layout.tensor
        size = float(part.bytes)
        if part.division is Division.EXPERT:
            size *= self.experts_read
            experts = self.candidate.subject.architecture.experts
            if layout.expert and experts is not None:
                # Whole experts: a rank that has any of them to read has at least one.
                least = min(self.experts_read, 1 / experts.count) * part.bytes
                return max(size / layout.expert_ranks, least) / self.gpu.memory_bandwidth
        elif part.division is Division.REPLICATED:
            ways = 1
        return size / min(ways, part.most_ways or ways) / self.gpu.memory_bandwidth

    def operations(self) -> float:
        """Seconds of the multiplications, where so many tokens go at once that they count."""
        operations = 2 * self.tokens * active_parameters(self.candidate.subject)
        return operations / self.candidate.layout.tensor / (self.gpu.bf16_flops * COMPUTE_SHARE)

    def kv_cache(self, groups: Iterable[AttentionGroup]) -> float:
        return sum(group.layers * self.attention(group) for group in groups)

    def attention(self, group: AttentionGroup) -> float:
        """Seconds that one layer of a group attends."""
        value = group.head_size if group.head_size_value is None else group.head_size_value
        heads = max(1, group.kv_heads // self.candidate.layout.tensor)
        reach = min(self.context, group.window or self.context)
        entry = heads * (group.head_size + value) * ELEMENT_BYTES
        seconds = self.requests * reach * entry / self.gpu.memory_bandwidth
        if group.kind is not AttentionKind.FULL:
            return seconds
        serial = self.context * self.engine.serial_token_ns / 1e9
        return max(seconds * self.engine.kv_factor, serial)

    def all_reduce(self) -> float:
        """Seconds of one sum over the tensor-parallel ranks."""
        ranks = self.candidate.layout.tensor
        if ranks == 1:
            return 0.0
        size = 2 * (ranks - 1) / ranks * self._residual()
        return self.gpu.link_latency_us / 1e6 + size / self.gpu.link_bandwidth

    def between_nodes(self) -> float:
        """Seconds of handing tokens to the next stage, and to the experts of other nodes."""
        layout, architecture = self.candidate.layout, self.candidate.subject.architecture
        exchange = NETWORK_LATENCY_US / 1e6 + self._residual() / NETWORK_BANDWIDTH
        far = layout.nodes > 1 and not layout.tensor_spans_nodes
        hops = layout.pipeline - 1 if far else 0
        sparse = architecture.experts.layers if architecture.experts is not None else 0
        return exchange * (hops + (2 * sparse if far and layout.data > 1 else 0))

    def drafts(self) -> float:
        """Seconds of the prediction layers, one after the other, each with the output head."""
        draft, heads = self.candidate.draft, self.candidate.subject.architecture.draft
        if not draft or heads is None:
            return 0.0
        read = sum(self._read(part) for part in self.parts if part.name in _UNREAD[1:])
        head = sum(self._read(part) for part in self.parts if part.name == "Output head")
        group = {g.name: g for g in self.candidate.subject.architecture.attending}
        attention = sum(
            self.attention(group[heads.group_of(depth % heads.depths)]) for depth in range(draft)
        )
        each = head + self.engine.layer_us / 1e6 + 2 * self.all_reduce()
        return read * draft / min(draft, heads.depths) + attention + draft * each

    def _residual(self) -> int:
        return self.tokens * self.candidate.subject.architecture.hidden_size * 2


def speed_of(candidate: Candidate, context: int) -> SpeedPlan:
    """What one request at `context` tokens is expected to get, with as many beside it as the spec
    wants at once."""
    layout, subject = candidate.layout, candidate.subject
    parts = weight_parts(subject.architecture, candidate.checkpoint, draft=candidate.draft)
    step = _Step(
        candidate=candidate,
        parts=parts,
        gpu=gpu_facts(candidate),
        engine=engine_speed(candidate),
        requests=ceil(subject.spec.serving.concurrency / layout.data),
        context=context,
    )
    terms = (SpeedTerm(item=item, nanoseconds=round(s * 1e9)) for item, s in step.terms())
    return SpeedPlan(
        context=context,
        decode=tuple(term for term in terms if term.nanoseconds),
        tokens_per_step=f"{tokens_per_step(subject, candidate.draft):.2f}",
        prefill_tokens_per_second=_prefill(step),
    )


def token_nanoseconds(candidate: Candidate, context: int) -> int:
    """Time between two tokens of one request: what options and depths are compared by."""
    step = speed_of(candidate, context).step_nanoseconds
    return round(step / tokens_per_step(candidate.subject, candidate.draft))


def acceptance(subject: Subject) -> float | None:
    """Share of drafted tokens that are accepted; None where nobody has measured it."""
    name = subject.architecture.architecture
    found = (d.acceptance for d in subject.environment.speed.drafts if d.architecture == name)
    return next(found, None)


def tokens_per_step(subject: Subject, draft: int) -> float:
    """Tokens that one forward pass yields: its own, and the drafts up to the first wrong one."""
    share = acceptance(subject) or 0.0
    return sum(share**accepted for accepted in range(draft + 1))


def gpu_facts(candidate: Candidate) -> GpuFacts:
    """The product's; of one that nobody listed, the slowest of its family, or the slowest of all.

    Raises `LookupError` where the installation knows no GPU at all.
    """
    known = candidate.subject.environment.gpus
    if candidate.gpu.product in known:
        return known[candidate.gpu.product]
    slowest = sorted(known.values(), key=lambda facts: (facts.memory_bandwidth, facts.name))
    if not slowest:
        raise LookupError("the installation has no facts of any GPU")
    family = (facts for facts in slowest if facts.capability == candidate.gpu.capability)
    return next(family, slowest[0])


def engine_speed(candidate: Candidate) -> EngineSpeed:
    """What the engine needs beyond bytes; raises `LookupError` without any such facts."""
    subject, layout = candidate.subject, candidate.layout
    whole = layout.gpus == 1 and not layout.expert
    split = runtime_for(subject, Device.GPU).split_kv
    for each in subject.environment.speed.engines:
        if (
            each.architecture in (None, subject.architecture.architecture)
            and (not each.gpu_architectures or candidate.gpu.capability in each.gpu_architectures)
            and each.checkpoint in (None, candidate.checkpoint.name)
            and each.whole in (None, whole)
            and each.split_kv in (None, split)
        ):
            return each
    raise LookupError("the installation has no facts of any engine's speed")


def active_parameters(subject: Subject) -> int:
    """Parameters that one token passes, in bfloat16's count."""
    architecture = subject.architecture
    widest = max(architecture.checkpoints, key=lambda each: each.bytes)
    experts = architecture.experts
    share = experts.per_token / experts.count if experts is not None else 1.0
    size = sum(
        part.bytes * (share if part.division is Division.EXPERT else 1)
        for part in weight_parts(architecture, widest)
        if part.name not in _UNREAD
    )
    return int(size) // 2


def _prefill(step: _Step) -> int:
    """Tokens per second of one prompt of `context` tokens, alone on one rank."""
    subject, layout = step.candidate.subject, step.candidate.layout
    architecture, context = subject.architecture, step.context
    # Only the last token of a prompt passes the output head.
    linear = 2 * (
        active_parameters(subject) - architecture.vocabulary_size * architecture.hidden_size
    )
    # A query attends to half of the context on average.
    attention = sum(
        4
        * g.layers
        * architecture.attention_heads
        * g.head_size
        * min(context / 2, g.window or context)
        for g in architecture.attending
    )
    flops = step.gpu.bf16_flops * COMPUTE_SHARE * layout.tensor
    return int(context / (PREFILL_SECONDS + context * (linear + attention) / flops))
