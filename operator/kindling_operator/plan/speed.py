"""How fast one request is answered: a roofline of bytes, links and what engines were measured to
need beside them.

It orders options and drafting depths, and it is shown; nothing is promised by it. Its error
against every measured table is in docs/planner.md and in tests/unit/plan/test_speed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kindling_operator.model.architecture import AttentionGroup, AttentionKind, Device
from kindling_operator.model.gpu import EngineSpeed, GpuFacts
from kindling_operator.model.plan import SpeedPlan, SpeedTerm
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.fit import Wanted
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


@dataclass(frozen=True, eq=False)
class Pace:
    """How fast a candidate's engine is, whatever it is asked for and however much it drafts.

    What follows from the candidate alone is found once.
    """

    candidate: Candidate
    _heads: dict[int, float] = field(default_factory=dict, repr=False)

    @cached_property
    def gpu(self) -> GpuFacts:
        return gpu_facts(self.candidate)

    @cached_property
    def engine(self) -> EngineSpeed:
        return engine_speed(self.candidate)

    @cached_property
    def parts(self) -> tuple[WeightPart, ...]:
        """What is loaded without drafts."""
        return weight_parts(self.candidate.subject.architecture, self.candidate.checkpoint)

    @cached_property
    def active(self) -> int:
        """Parameters that one token passes."""
        return active_parameters(self.candidate.subject)

    @cached_property
    def output_head(self) -> float:
        """Seconds of reading it."""
        return sum(self._read(part) for part in self.parts if part.name == "Output head")

    def weights(self, tokens: int) -> float:
        """Seconds of reading what `tokens` of each data-parallel rank pass at once."""
        share = self._experts_read(tokens)
        return sum(
            read if part is None else self._read_experts(part, share) for read, part in self._reads
        )

    def draft_layers(self, draft: int) -> float:
        """Seconds of reading the prediction layers that draft so many tokens, each once."""
        if draft not in self._heads:
            way = self.candidate
            parts = weight_parts(way.subject.architecture, way.checkpoint, draft=draft)
            self._heads[draft] = sum(self._read(p) for p in parts if p.name in _UNREAD[1:])
        return self._heads[draft]

    @cached_property
    def _reads(self) -> tuple[tuple[float, WeightPart | None], ...]:
        """Seconds of each part; of experts the part, of which more tokens read more."""
        return tuple(
            (0.0, part) if part.division is Division.EXPERT else (self._read(part), None)
            for part in self.parts
            if part.name not in _UNREAD
        )

    def _read(self, part: WeightPart) -> float:
        """Seconds that the slowest rank reads a part; stages follow each other, so all count."""
        whole = part.division is Division.REPLICATED
        ways = 1 if whole else self.candidate.layout.tensor
        return float(part.bytes) / min(ways, part.most_ways or ways) / self.gpu.memory_bandwidth

    def _read_experts(self, part: WeightPart, share: float) -> float:
        """The same of routed experts of which a share is read."""
        layout, experts = self.candidate.layout, self.candidate.subject.architecture.experts
        size = float(part.bytes) * share
        if layout.expert and experts is not None:
            # Whole experts: a rank that has any of them to read has at least one.
            least = min(share, 1 / experts.count) * part.bytes
            return max(size / layout.expert_ranks, least) / self.gpu.memory_bandwidth
        ways = layout.tensor
        return size / min(ways, part.most_ways or ways) / self.gpu.memory_bandwidth

    def _experts_read(self, tokens: int) -> float:
        """Share of the routed experts that these tokens choose among them, evenly by chance."""
        experts = self.candidate.subject.architecture.experts
        if experts is None:
            return 1.0
        ranks = self.candidate.layout.data if self.candidate.layout.expert else 1
        return 1 - (1 - experts.per_token / experts.count) ** (tokens * ranks)

    def operations(self, tokens: int) -> float:
        """Seconds of the multiplications, where so many tokens go at once that they count."""
        operations = 2 * tokens * self.active
        return operations / self.candidate.layout.tensor / (self.gpu.bf16_flops * COMPUTE_SHARE)

    def all_reduce(self, tokens: int) -> float:
        """Seconds of one sum over the tensor-parallel ranks."""
        ranks = self.candidate.layout.tensor
        if ranks == 1:
            return 0.0
        size = 2 * (ranks - 1) / ranks * self._residual(tokens)
        return self.gpu.link_latency_us / 1e6 + size / self.gpu.link_bandwidth

    def between_nodes(self, tokens: int) -> float:
        """Seconds of handing tokens to the next stage, and to the experts of other nodes."""
        layout, architecture = self.candidate.layout, self.candidate.subject.architecture
        exchange = NETWORK_LATENCY_US / 1e6 + self._residual(tokens) / NETWORK_BANDWIDTH
        far = layout.nodes > 1 and not layout.tensor_spans_nodes
        hops = layout.pipeline - 1 if far else 0
        sparse = architecture.experts.layers if architecture.experts is not None else 0
        return exchange * (hops + (2 * sparse if far and layout.data > 1 else 0))

    def _residual(self, tokens: int) -> int:
        return tokens * self.candidate.subject.architecture.hidden_size * 2


@dataclass(frozen=True, eq=False)
class Pass:
    """Forward passes of `requests` per data-parallel rank at `context`, with any drafts."""

    pace: Pace
    requests: int
    context: int

    def token_nanoseconds(self, draft: int) -> int:
        """Time between two tokens of one request."""
        step = sum(round(seconds * 1e9) for _, seconds in self.terms(draft))
        return round(step / tokens_per_step(self.pace.candidate.subject, draft))

    def terms(self, draft: int) -> Iterator[tuple[str, float]]:
        """Seconds of each term of one pass in which every request has so many drafted tokens."""
        pace, tokens = self.pace, self.requests * (draft + 1)
        layers = pace.candidate.subject.architecture.layers
        yield "Weights", max(pace.weights(tokens), pace.operations(tokens))
        yield "KV cache", self._kv_cache
        yield "Layers", layers * pace.engine.layer_us / 1e6
        yield "All-reduce", 2 * layers * pace.all_reduce(tokens)
        yield "Between nodes", pace.between_nodes(tokens)
        yield "Drafts", self._drafts(draft)

    @cached_property
    def _kv_cache(self) -> float:
        groups = self.pace.candidate.subject.architecture.attending
        return sum(group.layers * self._attention[group.name] for group in groups)

    @cached_property
    def _attention(self) -> Mapping[str, float]:
        """Seconds that one layer of each group attends."""
        groups = self.pace.candidate.subject.architecture.attending
        return {group.name: self._attend(group) for group in groups}

    def _attend(self, group: AttentionGroup) -> float:
        gpu, engine = self.pace.gpu, self.pace.engine
        value = group.head_size if group.head_size_value is None else group.head_size_value
        heads = max(1, group.kv_heads // self.pace.candidate.layout.tensor)
        reach = min(self.context, group.window or self.context)
        entry = heads * (group.head_size + value) * ELEMENT_BYTES
        seconds = self.requests * reach * entry / gpu.memory_bandwidth
        if group.kind is not AttentionKind.FULL:
            return seconds
        serial = self.context * engine.serial_token_ns / 1e9
        return max(seconds * engine.kv_factor, serial)

    def _drafts(self, draft: int) -> float:
        """Seconds of the prediction layers, one after the other, each with the output head."""
        pace, heads = self.pace, self.pace.candidate.subject.architecture.draft
        if not draft or heads is None:
            return 0.0
        attention = sum(
            self._attention[heads.group_of(depth % heads.depths)] for depth in range(draft)
        )
        tokens = self.requests * (draft + 1)
        each = pace.output_head + pace.engine.layer_us / 1e6 + 2 * pace.all_reduce(tokens)
        read = pace.draft_layers(draft)
        return read * draft / min(draft, heads.depths) + attention + draft * each


def speed_of(candidate: Candidate, context: int) -> SpeedPlan:
    """What one request at `context` tokens is expected to get, with as many beside it as the spec
    wants at once."""
    subject, draft = candidate.subject, candidate.draft
    step = pass_of(Pace(candidate), Wanted(context, subject.spec.serving.concurrency))
    terms = (SpeedTerm(item=item, nanoseconds=round(s * 1e9)) for item, s in step.terms(draft))
    return SpeedPlan(
        context=context,
        decode=tuple(term for term in terms if term.nanoseconds),
        tokens_per_step=f"{tokens_per_step(subject, draft):.2f}",
        prefill_tokens_per_second=_prefill(step),
    )


def pass_of(pace: Pace, wanted: Wanted) -> Pass:
    """A pass with as many requests at once as are wanted."""
    return Pass(pace, wanted.per_rank(pace.candidate.layout), wanted.context)


def token_nanoseconds(candidate: Candidate, context: int) -> int:
    """Time between two tokens of one request: what options and depths are compared by."""
    wanted = Wanted(context, candidate.subject.spec.serving.concurrency)
    step = pass_of(Pace(candidate), wanted)
    return step.token_nanoseconds(candidate.draft)


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


def _prefill(step: Pass) -> int:
    """Tokens per second of one prompt of `context` tokens, alone on one rank."""
    pace, context = step.pace, step.context
    layout, architecture = pace.candidate.layout, pace.candidate.subject.architecture
    # Only the last token of a prompt passes the output head.
    linear = 2 * (pace.active - architecture.vocabulary_size * architecture.hidden_size)
    # A query attends to half of the context on average.
    attention = sum(
        4
        * g.layers
        * architecture.attention_heads
        * g.head_size
        * min(context / 2, g.window or context)
        for g in architecture.attending
    )
    flops = pace.gpu.bf16_flops * COMPUTE_SHARE * layout.tensor
    return int(context / (PREFILL_SECONDS + context * (linear + attention) / flops))
