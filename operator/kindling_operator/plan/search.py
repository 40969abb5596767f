"""Every way to serve a model on the nodes that exist, in the order of preference.

A candidate is a checkpoint on a class of GPU in a layout. It passes the rules, is sized and, if it
fits, timed; what cannot work is kept with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from kindling_operator.model.architecture import Checkpoint, CheckpointName, Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.plan import SpeedPlan
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.capabilities import cpu_architectures
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.fit import Misfit, Wanted
from kindling_operator.plan.fleet import Fleet, Pool, pool_of
from kindling_operator.plan.hosttier import with_bytes, with_tier
from kindling_operator.plan.layouts import Extent, layouts
from kindling_operator.plan.memory import storage_items, total
from kindling_operator.plan.mounts import downloaded
from kindling_operator.plan.no_layout import no_layout
from kindling_operator.plan.pins import pins_of, wants_several
from kindling_operator.plan.question import question_of, searched
from kindling_operator.plan.room import Demand
from kindling_operator.plan.rules import judge_option, unverified_on
from kindling_operator.plan.sizing import Sizing, cpu_sizing, gpu_sizing, sized, wanted_of
from kindling_operator.plan.speed import pass_of, speed_plan
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.ways import Way, Ways, checkpoints, fixed_draft, ways

_PRECISION = {CheckpointName.BF16: 16, CheckpointName.NVFP4: 4}


@dataclass(frozen=True)
class Option:
    """A candidate that fits: on CPU (`way` None) or on GPUs of a class in a layout.

    `pool` has the nodes that it may take. `name` is what people read, unique among the candidates
    of one search. `token_nanoseconds` is the time between two tokens that options are compared by,
    and `undrafted_nanoseconds` what it would be without the drafts that the plan chose. Without
    `tier` nothing is kept in host memory. The rest is found when it is asked for: of most options
    nobody asks.
    """

    name: str
    subject: Subject
    checkpoint: Checkpoint
    pool: Pool
    way: Way | None = None
    token_nanoseconds: int = 0
    undrafted_nanoseconds: int = 0
    tier: bool = True

    @property
    def gpu(self) -> GpuClass | None:
        return self.way.candidate.gpu if self.way is not None else None

    @property
    def layout(self) -> Layout:
        return self.way.candidate.layout if self.way is not None else ONE_GPU

    @property
    def draft(self) -> int:
        """Tokens drafted per step."""
        return self.way.candidate.draft if self.way is not None else 0

    @property
    def candidate(self) -> Candidate:
        """What it was judged as; only for one on GPUs."""
        assert self.way is not None
        return replace(self.way.candidate, subject=self.subject)

    @cached_property
    def sizing(self) -> Sizing:
        """Its numbers."""
        if self.way is None:
            return cpu_sizing(self.subject, self.checkpoint)
        found = sized(self.way.engines(wanted_of(self.subject)), self.subject)
        assert isinstance(found, Sizing)
        if self.tier:
            return with_tier(self.candidate, found, self.pool)
        return with_bytes(self.candidate, found, 0)

    @cached_property
    def speed(self) -> SpeedPlan | None:
        """What one request may expect; on GPUs only."""
        if self.way is None:
            return None
        return speed_plan(pass_of(self.way.pace, wanted_of(self.subject)), self.draft)

    @property
    def warning(self) -> str:
        """What is unverified, and the user insists on; "" if nothing."""
        return self.way.warning if self.way else unverified_on(self.subject, Device.CPU)

    @property
    def demand(self) -> Demand:
        """What one replica asks of the cluster."""
        return Demand(
            self.gpu,
            gpus_per_node=self.layout.gpus_per_node if self.gpu is not None else 0,
            nodes=self.layout.nodes,
            cpu_millis=self.sizing.cpu_millis,
            memory=self.sizing.memory,
            ephemeral=total(
                storage_items(downloaded=downloaded(self.subject.weights, self.checkpoint))
            ),
            one_clique=self.layout.tensor_spans_nodes,
        )


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that cannot be taken: what the rules say of it, or what it does not hold.

    `short` is the bytes that lack on each GPU.
    """

    name: str
    why: Refusal | Misfit

    @property
    def reason(self) -> Reason:
        """As in status."""
        return self.why.reason

    @property
    def message(self) -> str:
        return self.why.message

    @property
    def misfit(self) -> Misfit | None:
        return self.why if isinstance(self.why, Misfit) else None

    @property
    def short(self) -> int:
        return self.why.short if isinstance(self.why, Misfit) else 0


@dataclass(frozen=True, slots=True)
class Search:
    """What was found: options that fit, best first, and the others, nearest first."""

    options: tuple[Option, ...]
    rejected: tuple[Rejected, ...]


def search(subject: Subject, fleet: Fleet) -> Search:
    """Judge every candidate against the nodes, as if all of their GPUs were free.

    Models that ask for the same share the answer: it depends on nothing else of them.
    """
    seen = searched(subject)
    return fleet.answer(question_of(seen), lambda: _search(seen, fleet))


def _search(subject: Subject, fleet: Fleet) -> Search:
    found = [*_on_gpus(subject, fleet), *_on_cpu(subject, fleet)]
    options = sorted((o for o in found if isinstance(o, Option)), key=preference)
    rejected = sorted((r for r in found if isinstance(r, Rejected)), key=_nearness)
    return Search(tuple(options), tuple(rejected))


def preference(option: Option) -> tuple[bool, int, int, int]:
    """GPUs before CPU, then the fewest GPUs, then the higher precision, then the fastest.

    Options that are equal in this are told apart by the room that they leave, then by name.
    """
    return (
        option.gpu is None,
        option.layout.gpus,
        -_PRECISION[option.checkpoint.name],
        option.token_nanoseconds,
    )


def fitting(candidate: Candidate, extent: Extent) -> Iterator[Layout]:
    """The layouts in which a candidate passes the rules and fits, fewest GPUs first."""
    for layout in layouts(candidate.subject, extent):
        way = replace(candidate, layout=layout)
        if judge_option(way) is None and isinstance(gpu_sizing(way), Sizing):
            yield layout


def without_tier(option: Option) -> Option:
    """The option with nothing in host memory."""
    return replace(option, tier=False)


def _on_gpus(subject: Subject, fleet: Fleet) -> Iterator[Option | Rejected]:
    if Device.GPU not in subject.architecture.devices:
        return
    wanted = wanted_of(subject)
    for pool, each in ways(subject, fleet):
        yield from _on_class(subject, wanted, each, pool)


def _on_class(
    subject: Subject, wanted: Wanted, alike: Ways, pool: Pool
) -> Iterator[Option | Rejected]:
    """One checkpoint on one class of GPU."""
    if not alike.each:
        yield Rejected(alike.name, _unplaceable(replace(alike.first, subject=subject), pool))
    if alike.refusal is not None:
        yield Rejected(alike.name, alike.refusal)
        return
    fits: int | None = None
    for way in alike.each:
        if fits is not None and way.is_divided and way.gpus > fits:
            # Stages and data ranks are for models that fit no other way.
            continue
        obstacle = way.obstacle(wanted)
        if obstacle is not None:
            yield Rejected(way.name, obstacle)
            continue
        fits = way.gpus if fits is None else fits
        yield _option(subject, wanted, way, pool)


def _option(subject: Subject, wanted: Wanted, way: Way, pool: Pool) -> Option:
    """A way that holds what is wanted, with as many drafts as give the most tokens per second of
    those that are allowed and fit; with none if none does."""
    step = pass_of(way.pace, wanted)
    plain = step.token_nanoseconds(way.draft)
    timed = sorted((step.token_nanoseconds(each.draft), each.draft) for each in way.drafting)
    for nanoseconds, depth in timed:
        drafting = way.drafting[depth - 1]
        if nanoseconds < plain and drafting.obstacle(wanted) is None:
            return Option(way.name, subject, way.checkpoint, pool, drafting, nanoseconds, plain)
    return Option(way.name, subject, way.checkpoint, pool, way, plain)


def _unplaceable(first: Candidate, pool: Pool) -> Refusal:
    """No layout that the spec allows has nodes; what the rules say of the pins comes first."""
    sizes = pins_of(first.subject)
    pinned = Layout(sizes.tensor or 1, sizes.pipeline or 1, sizes.data or 1, bool(sizes.expert))
    refused = judge_option(replace(first, layout=pinned))
    return refused or Refusal(Reason.UNSUPPORTED_PARALLELISM, no_layout(first, pool))


def _on_cpu(subject: Subject, fleet: Fleet) -> Iterator[Option]:
    placement = subject.spec.placement
    gpu_only = placement is not None and placement.gpu is not None
    several = wants_several(subject) or bool(fixed_draft(subject))
    if Device.CPU not in subject.architecture.devices or gpu_only or several:
        return
    pool = _cpu_pool(subject, fleet)
    for checkpoint in checkpoints(subject):
        yield Option(f"{checkpoint.name.value} on CPU", subject, checkpoint, pool)


def _cpu_pool(subject: Subject, fleet: Fleet) -> Pool:
    """The nodes that the CPU image runs on."""
    built_for = cpu_architectures(subject)
    usable = fleet.usable(subject.spec.placement, gpu=False)
    return fleet.answer(
        ("cpu", usable.names, built_for),
        lambda: pool_of(n for n in usable.nodes if not built_for or n.architecture in built_for),
    )


_NEARNESS = (
    Reason.CONTEXT_DOES_NOT_FIT,
    Reason.WEIGHTS_DO_NOT_FIT,
    Reason.INVALID_SPEC,
    Reason.UNSUPPORTED_PARALLELISM,
    Reason.NO_SUPPORTED_GPU,
    Reason.BROKEN_COMBINATION,
)


def _nearness(rejected: Rejected) -> tuple[int, int, str]:
    return _NEARNESS.index(rejected.reason), rejected.short, rejected.name
