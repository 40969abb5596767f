"""How fast one request is answered: a roofline of bytes, links and what engines were measured to
need beside them.

It orders options and drafting depths, and it is shown; nothing is promised by it. Its error
against every measured table is in docs/planner.md and in tests/unit/plan/test_speed.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import cycle, islice
from typing import NamedTuple

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

    @cached_property
    def gpu(self) -> GpuFacts:
        return gpu_facts(self.candidate)

    @cached_property
    def engine(self) -> EngineSpeed:
        return engine_speed(self.candidate)

    @cached_property
    def groups(self) -> tuple[AttentionGroup, ...]:
        """The layers that attend."""
        return self.candidate.subject.architecture.attending

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """The group whose attention each prediction layer has, by name."""
        draft = self.candidate.subject.architecture.draft
        return tuple(map(draft.group_of, range(draft.depths))) if draft is not None else ()

    @cached_property
    def active(self) -> int:
        """Parameters that one token passes."""
        return active_parameters(self.candidate.subject)

    @cached_property
    def parts(self) -> tuple[WeightPart, ...]:
        """What is loaded without drafts."""
        return weight_parts(self.candidate.subject.architecture, self.candidate.checkpoint)

    def weights(self, tokens: int) -> float:
        """Seconds of reading what `tokens` of each data-parallel rank pass at once."""
        share = self._experts_read(tokens)
        return sum(
            self._read_experts(read, share) if isinstance(read, WeightPart) else read
            for read in self._reads
        )

    @cached_property
    def output_head(self) -> float:
        """Seconds of reading it."""
        return sum(self._read(part) for part in self.parts if part.name == "Output head")

    def draft_layers(self, draft: int) -> float:
        """Seconds of reading the prediction layers that draft so many tokens, each once."""
        architecture, checkpoint = self.candidate.subject.architecture, self.candidate.checkpoint
        parts = weight_parts(architecture, checkpoint, draft=draft)
        return sum(self._read(part) for part in parts if part.name in _UNREAD[1:])

    @cached_property
    def _reads(self) -> tuple[float | WeightPart, ...]:
        """Seconds of reading each part; of routed experts the part, as more tokens read more."""
        return tuple(
            part if part.division is Division.EXPERT else self._read(part)
            for part in self.parts
            if part.name not in _UNREAD
        )

    def _read(self, part: WeightPart) -> float:
        """Seconds that the slowest rank reads a part; stages follow each other, so all count."""
        ways = 1 if part.division is Division.REPLICATED else self.candidate.layout.tensor
        return float(part.bytes) / min(ways, part.most_ways or ways) / self.gpu.memory_bandwidth

    def _read_experts(self, part: WeightPart, share: float) -> float:
        """The same of routed experts, of which a share is read."""
        layout, experts = self.candidate.layout, self.candidate.subject.architecture.experts
        size = float(part.bytes) * share
        if layout.expert and experts is not None:
            # Whole experts: a rank that has any of them to read has at least one.
            least = min(share, 1 / experts.count) * part.bytes
            return max(size / layout.expert_ranks, least) / self.gpu.memory_bandwidth
        ways = min(layout.tensor, part.most_ways or layout.tensor)
        return size / ways / self.gpu.memory_bandwidth

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

    def attention(self, group: AttentionGroup, requests: int, context: int) -> float:
        """Seconds that one layer of a group attends."""
        value = group.head_size if group.head_size_value is None else group.head_size_value
        heads = max(1, group.kv_heads // self.candidate.layout.tensor)
        reach = min(context, group.window or context)
        entry = heads * (group.head_size + value) * ELEMENT_BYTES
        seconds = requests * reach * entry / self.gpu.memory_bandwidth
        if group.kind is not AttentionKind.FULL:
            return seconds
        serial = context * self.engine.serial_token_ns / 1e9
        return max(seconds * self.engine.kv_factor, serial)

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


class _Steady(NamedTuple):
    """What of a pass is the same for every context: seconds of its terms.

    `draft_layers` is reading the prediction layers as often as they are used, `drafts` what they
    take beside that and attention. `nanoseconds` is all but those, `tokens` what one request gets.
    """

    weights: float
    layers: float
    all_reduce: float
    between_nodes: float
    draft_layers: float
    drafts: float
    nanoseconds: int
    tokens: float


@lru_cache(maxsize=16_384)
def _steady(pace: Pace, requests: int, draft: int) -> _Steady:
    """Of `requests` per data-parallel rank, each with so many drafted tokens."""
    architecture, tokens = pace.candidate.subject.architecture, requests * (draft + 1)
    weights = max(pace.weights(tokens), pace.operations(tokens))
    each_layer = pace.engine.layer_us / 1e6
    layers = architecture.layers * pace.engine.layer_us / 1e6
    all_reduce = 2 * architecture.layers * pace.all_reduce(tokens)
    between = pace.between_nodes(tokens)
    draft_layers = drafts = 0.0
    if draft and architecture.draft is not None:
        draft_layers = pace.draft_layers(draft) * draft / min(draft, architecture.draft.depths)
        drafts = draft * (pace.output_head + each_layer + 2 * pace.all_reduce(tokens))
    return _Steady(
        weights,
        layers,
        all_reduce,
        between,
        draft_layers,
        drafts,
        nanoseconds=sum(_nanoseconds(each) for each in (weights, layers, all_reduce, between)),
        tokens=tokens_per_step(pace.candidate.subject, draft),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """Forward passes of `requests` per data-parallel rank at one context, with any drafts.

    `kv_cache` is the seconds that all layers attend, `heads` those of each prediction layer.
    """

    pace: Pace
    requests: int
    context: int
    kv_cache: float
    heads: tuple[float, ...]

    def token_nanoseconds(self, draft: int) -> int:
        """Time between two tokens of one request."""
        steady = _steady(self.pace, self.requests, draft)
        drafts = self._drafts(steady, draft)
        step = steady.nanoseconds + _nanoseconds(self.kv_cache) + _nanoseconds(drafts)
        return round(step / steady.tokens)

    def terms(self, draft: int) -> Iterator[SpeedTerm]:
        """The terms of one pass in which every request has so many drafted tokens."""
        steady = _steady(self.pace, self.requests, draft)
        seconds = {
            "Weights": steady.weights,
            "KV cache": self.kv_cache,
            "Layers": steady.layers,
            "All-reduce": steady.all_reduce,
            "Between nodes": steady.between_nodes,
            "Drafts": self._drafts(steady, draft),
        }
        for item, each in seconds.items():
            yield SpeedTerm(item=item, nanoseconds=_nanoseconds(each))

    def _drafts(self, steady: _Steady, draft: int) -> float:
        """Seconds of the prediction layers, one after the other, each with the output head."""
        attention = sum(islice(cycle(self.heads), draft))
        return steady.draft_layers + attention + steady.drafts


def pass_of(pace: Pace, wanted: Wanted) -> Pass:
    """A pass with as many requests at once as are wanted."""
    requests, context = wanted.per_rank(pace.candidate.layout), wanted.context
    attention = {g.name: pace.attention(g, requests, context) for g in pace.groups}
    kv_cache = sum(group.layers * attention[group.name] for group in pace.groups)
    heads = tuple(attention[name] for name in pace.heads)
    return Pass(pace, requests, context, kv_cache, heads)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def speed_plan(step: Pass, draft: int) -> SpeedPlan:
    """What one of the requests of a pass is expected to get, with so many drafted tokens."""
    return SpeedPlan(
        context=step.context,
        decode=tuple(term for term in step.terms(draft) if term.nanoseconds),
        tokens_per_step=f"{tokens_per_step(step.pace.candidate.subject, draft):.2f}",
        prefill_tokens_per_second=_prefill(step),
    )


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
