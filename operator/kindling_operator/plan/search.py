"""Every way to serve a model on the nodes that exist, in the order of preference.

A candidate is a checkpoint on a class of GPU in a layout. It passes the rules, is sized and, if it
fits, timed; what cannot work is kept with the reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import astuple, dataclass, replace

import msgspec
from msgspec import structs

from kindling_operator.model.api_serving import SpeculationMode
from kindling_operator.model.architecture import Checkpoint, CheckpointName, Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.plan import SpeedPlan
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import cpu_architectures
from kindling_operator.plan.devices import GpuClass, titles
from kindling_operator.plan.fleet import Fleet, Pool, pool_of
from kindling_operator.plan.hosttier import with_bytes, with_tier
from kindling_operator.plan.kinds import kinds
from kindling_operator.plan.layouts import Extent, extent_of, layouts
from kindling_operator.plan.memory import storage_items, total
from kindling_operator.plan.no_layout import no_layout
from kindling_operator.plan.pins import pins_of, wants_several
from kindling_operator.plan.room import Demand
from kindling_operator.plan.rules import judge_option, unverified, unverified_image
from kindling_operator.plan.sizing import Misfit, Sizing, cpu_sizing, gpu_sizing, wanted_context
from kindling_operator.plan.speed import acceptance, speed_of, token_nanoseconds
from kindling_operator.plan.subject import Subject

_PRECISION = {CheckpointName.BF16: 16, CheckpointName.NVFP4: 4}


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate that fits: on CPU (`gpu` None) or on GPUs of a class in a layout.

    `pool` has the nodes that it may take. `name` is what people read, unique among the candidates
    of one search. `draft` is the number of tokens drafted per step, `token_nanoseconds` the time
    between two tokens that options are compared by, and `undrafted_nanoseconds` what it would be
    without the drafts that the plan chose. `warning` is set where the combination is unverified and
    the user insists on it.
    """

    name: str
    checkpoint: Checkpoint
    gpu: GpuClass | None
    sizing: Sizing
    pool: Pool
    layout: Layout = ONE_GPU
    draft: int = 0
    speed: SpeedPlan | None = None
    token_nanoseconds: int = 0
    undrafted_nanoseconds: int = 0
    warning: str = ""

    def candidate(self, subject: Subject) -> Candidate:
        """What it was judged as; only for one on GPUs."""
        assert self.gpu is not None
        return Candidate(subject, self.checkpoint, self.gpu, self.layout, self.draft)

    @property
    def demand(self) -> Demand:
        """What one replica asks of the cluster."""
        return Demand(
            self.gpu,
            gpus_per_node=self.layout.gpus_per_node if self.gpu is not None else 0,
            nodes=self.layout.nodes,
            cpu_millis=self.sizing.cpu_millis,
            memory=self.sizing.memory,
            ephemeral=total(storage_items()),
            one_clique=self.layout.tensor_spans_nodes,
        )


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that cannot be taken; `reason` as in status.

    `short` is the bytes that lack on each GPU; then `candidate` and `misfit` tell of what.
    """

    name: str
    reason: Reason
    message: str
    short: int = 0
    candidate: Candidate | None = None
    misfit: Misfit | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """What was found: options that fit, best first, and the others, nearest first."""

    options: tuple[Option, ...]
    rejected: tuple[Rejected, ...]


def search(subject: Subject, fleet: Fleet) -> Search:
    """Judge every candidate against the nodes, as if all of their GPUs were free.

    Models that ask for the same share the answer: it depends on nothing else of them.
    """
    return fleet.answer(question_of(subject), lambda: _search(subject, fleet))


def question_of(subject: Subject) -> Hashable:
    """Everything of a model that the search looks at, beside what the installation knows.

    Where the weights are and what users call the model is of no matter to it.
    """
    spec = subject.spec
    model = structs.replace(spec.model, weights=None)
    serving = structs.replace(spec.serving, served_name=None)
    parts = (model, serving, spec.placement, spec.runtime, spec.cache)
    return subject.entry.name, subject.architecture, msgspec.json.encode(parts)


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


def checkpoints(subject: Subject) -> tuple[Checkpoint, ...]:
    """The model's checkpoints, or the one that the user pins."""
    pinned = subject.spec.model.checkpoint.pinned
    return tuple(c for c in subject.architecture.checkpoints if pinned in (None, c.name))


def fitting(candidate: Candidate, extent: Extent) -> Iterator[Layout]:
    """The layouts in which a candidate passes the rules and fits, fewest GPUs first."""
    for layout in layouts(candidate.subject, extent):
        way = replace(candidate, layout=layout)
        if judge_option(way) is None and isinstance(gpu_sizing(way), Sizing):
            yield layout


def without_tier(subject: Subject, option: Option) -> Option:
    """The option with nothing in host memory."""
    return replace(option, sizing=with_bytes(option.candidate(subject), option.sizing, 0))


def _on_gpus(subject: Subject, fleet: Fleet) -> Iterator[Option | Rejected]:
    if Device.GPU not in subject.architecture.devices:
        return
    pools = {p.gpu: p for p in kinds(subject, fleet) if p.gpu is not None}
    for gpu, title in titles(pools).items():
        ways = layouts(subject, extent_of(pools[gpu]))
        for checkpoint in checkpoints(subject):
            yield from _on_class(Candidate(subject, checkpoint, gpu), pools[gpu], ways, title)


def _on_class(
    first: Candidate, pool: Pool, ways: tuple[Layout, ...], title: str
) -> Iterator[Option | Rejected]:
    """One checkpoint on one class of GPU, in every layout that is worth a look."""
    if not ways:
        yield _unplaceable(first, pool, title)
    found: list[Option | Rejected] = []
    fits: int | None = None
    for layout in ways:
        if fits is not None and layout.gpus > fits and layout.pipeline * layout.data > 1:
            # Stages and data ranks are for models that fit no other way.
            continue
        found.append(_judged(replace(first, layout=layout), pool, title))
        if isinstance(found[-1], Option) and fits is None:
            fits = layout.gpus
    refusals = {(each.reason, each.message) for each in found if isinstance(each, Rejected)}
    if len(refusals) == 1 < len(found) and not any(isinstance(each, Option) for each in found):
        # What no layout changes is said once.
        yield Rejected(f"{first.checkpoint.name.value} on {title}", *refusals.pop())
    else:
        yield from found


def _judged(way: Candidate, pool: Pool, title: str) -> Option | Rejected:
    name = _name(way, title)
    fixed = _fixed_draft(way.subject)
    way = replace(way, draft=fixed or 0)
    refused = judge_option(way)
    if refused is not None:
        return Rejected(name, refused.reason, refused.message)
    sizing = gpu_sizing(way)
    if isinstance(sizing, Misfit):
        return Rejected(name, sizing.reason, sizing.message, sizing.short, way, sizing)
    context, plain = wanted_context(way.subject), way
    if fixed is None:
        way, sizing = _drafting(way, sizing)
    return Option(
        name,
        way.checkpoint,
        way.gpu,
        with_tier(way, sizing, pool),
        pool,
        layout=way.layout,
        draft=way.draft,
        speed=speed_of(way, context),
        token_nanoseconds=token_nanoseconds(way, context),
        undrafted_nanoseconds=token_nanoseconds(plain, context) if way.draft != plain.draft else 0,
        warning=unverified(way),
    )


def _fixed_draft(subject: Subject) -> int | None:
    """Tokens to draft if the user says so, None where the plan may choose."""
    wanted = subject.spec.serving.speculation
    if wanted.mode is SpeculationMode.FIXED:
        return wanted.tokens
    drafts = subject.architecture.draft is not None and acceptance(subject) is not None
    return None if wanted.mode is SpeculationMode.AUTO and drafts else 0


def _drafting(way: Candidate, plain: Sizing) -> tuple[Candidate, Sizing]:
    """The depth with the most tokens per second that is allowed and fits; none if none does."""
    heads, context = way.subject.architecture.draft, wanted_context(way.subject)
    depths = range(1, heads.depths + 1) if heads is not None else range(0)
    drafting = [replace(way, draft=depth) for depth in depths]
    without = token_nanoseconds(way, context)
    timed = sorted((token_nanoseconds(each, context), each.draft) for each in drafting)
    for nanoseconds, draft in timed:
        if nanoseconds >= without:
            break
        each = replace(way, draft=draft)
        sizing = gpu_sizing(each) if judge_option(each) is None else None
        if isinstance(sizing, Sizing):
            return each, sizing
    return way, plain


def _unplaceable(first: Candidate, pool: Pool, title: str) -> Rejected:
    """No layout that the spec allows has nodes; what the rules say of the pins comes first."""
    sizes = pins_of(first.subject)
    pinned = Layout(sizes.tensor or 1, sizes.pipeline or 1, sizes.data or 1, bool(sizes.expert))
    refused = judge_option(replace(first, layout=pinned))
    if refused is not None:
        return Rejected(f"{first.checkpoint.name.value} on {title}", *astuple(refused))
    return Rejected(
        f"{first.checkpoint.name.value} on {title}",
        Reason.UNSUPPORTED_PARALLELISM,
        no_layout(first, pool),
    )


def _name(way: Candidate, title: str) -> str:
    layout = way.layout
    where = f"{layout.nodes} nodes of " if layout.nodes > 1 else ""
    return f"{way.checkpoint.name.value} {layout.name} on {where}{layout.gpus_per_node} x {title}"


def _on_cpu(subject: Subject, fleet: Fleet) -> Iterator[Option]:
    placement = subject.spec.placement
    gpu_only = placement is not None and placement.gpu is not None
    several = wants_several(subject) or bool(_fixed_draft(subject))
    if Device.CPU not in subject.architecture.devices or gpu_only or several:
        return
    built_for = cpu_architectures(subject)
    usable = fleet.usable(placement, gpu=False)
    pool = pool_of(n for n in usable.nodes if not built_for or n.architecture in built_for)
    for checkpoint in checkpoints(subject):
        yield Option(
            f"{checkpoint.name.value} on CPU",
            checkpoint,
            None,
            cpu_sizing(subject, checkpoint),
            pool,
            warning=unverified_image(subject, Device.CPU),
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
