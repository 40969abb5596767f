"""Every way to serve a model on GPUs, with what holds however much it is asked for.

A way is judged by the rules, its weights are counted and timed once for all models that differ only
in context, requests and what else is wanted on top: a cluster has many models of few kinds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from kindling_operator.model.api_serving import SpeculationMode
from kindling_operator.model.architecture import Checkpoint
from kindling_operator.model.layout import Layout
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.devices import GpuClass, titles
from kindling_operator.plan.fit import Engine, Misfit, Wanted
from kindling_operator.plan.fleet import Fleet, Pool
from kindling_operator.plan.kinds import kinds
from kindling_operator.plan.layouts import Extent, extent_of, layouts
from kindling_operator.plan.question import question_of, undemanding
from kindling_operator.plan.rules import judge_option, unverified
from kindling_operator.plan.sizing import engines_of, sequences_of
from kindling_operator.plan.speed import Pace, acceptance
from kindling_operator.plan.subject import Subject


@dataclass(frozen=True, eq=False)
class Way:
    """A candidate of an undemanding model; `name` is what people read, `pace` how fast it is.

    What follows from these is found once, when it is first asked for.
    """

    candidate: Candidate
    name: str
    pace: Pace
    _engines: dict[int, tuple[Engine, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        return self.candidate.checkpoint

    @cached_property
    def draft(self) -> int:
        return self.candidate.draft

    @cached_property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.candidate.layout.gpus

    @cached_property
    def is_divided(self) -> bool:
        """Whether stages or data ranks divide it further than tensor parallelism does."""
        return self.candidate.layout.pipeline * self.candidate.layout.data > 1

    @cached_property
    def refusal(self) -> Refusal | None:
        """What the rules say."""
        return judge_option(self.candidate)

    @cached_property
    def warning(self) -> str:
        """What nobody has verified of it, and the user insists on; "" if nothing."""
        return unverified(self.candidate)

    @cached_property
    def drafting(self) -> tuple[Way, ...]:
        """The same with one drafted token, with two and so on, where the plan may choose."""
        heads = self.candidate.subject.architecture.draft
        if heads is None or fixed_draft(self.candidate.subject) is not None:
            return ()
        depths = range(1, heads.depths + 1)
        drafting = (replace(self.candidate, draft=depth) for depth in depths)
        return tuple(Way(each, self.name, self.pace) for each in drafting)

    def engines(self, wanted: Wanted) -> tuple[Engine, ...]:
        """Its engine with each number of batched tokens, the most first."""
        sequences = sequences_of(self.candidate, wanted)
        if sequences not in self._engines:
            self._engines[sequences] = engines_of(self.candidate, sequences)
        return self._engines[sequences]

    def obstacle(self, wanted: Wanted) -> Refusal | Misfit | None:
        """Why it cannot be taken, or None."""
        return self.refusal or self.engines(wanted)[-1].misfit(wanted)


@dataclass(frozen=True, eq=False)
class Ways:
    """One checkpoint on one kind of GPU in every layout that is worth a look, fewest GPUs first."""

    first: Candidate
    title: str
    each: tuple[Way, ...]

    @property
    def name(self) -> str:
        """What people read of all of them."""
        return f"{self.first.checkpoint.name.value} on {self.title}"

    @cached_property
    def refusal(self) -> Refusal | None:
        """What no layout changes, and is said once."""
        if len(self.each) < 2:
            return None
        first, *others = self.each
        if first.refusal is None or any(way.refusal != first.refusal for way in others):
            return None
        return first.refusal


def ways(subject: Subject, fleet: Fleet) -> Iterator[tuple[Pool, Ways]]:
    """All of them, with the nodes of their kind of GPU."""
    pools = {pool.gpu: pool for pool in kinds(subject, fleet) if pool.gpu is not None}
    nodes = tuple((pool.gpu, pool.names) for pool in pools.values())
    extents = fleet.answer(("extents", nodes), lambda: tuple(map(extent_of, pools.values())))
    plain = undemanding(subject)
    asked, classes = question_of(plain), tuple(zip(pools, extents, strict=True))
    found = fleet.answer(
        ("ways", asked, classes), lambda: tuple(_on_kinds(plain, asked, dict(classes), fleet))
    )
    return ((pools[gpu], each) for gpu, each in found)


def _on_kinds(
    subject: Subject, asked: Hashable, extents: Mapping[GpuClass, Extent], fleet: Fleet
) -> Iterator[tuple[GpuClass, Ways]]:
    """Kinds of the same GPU with other numbers of nodes mostly have the same layouts."""
    for gpu, title in titles(extents).items():
        found = layouts(subject, extents[gpu])
        each = fleet.answer(
            ("ways", asked, gpu, title, found), partial(_on_kind, subject, gpu, title, found)
        )
        yield from ((gpu, alike) for alike in each)


def _on_kind(
    subject: Subject, gpu: GpuClass, title: str, found: Iterable[Layout]
) -> tuple[Ways, ...]:
    """Those of each checkpoint."""
    draft = fixed_draft(subject) or 0
    return tuple(
        Ways(
            Candidate(subject, checkpoint, gpu),
            title,
            tuple(
                _way(Candidate(subject, checkpoint, gpu, layout, draft), title) for layout in found
            ),
        )
        for checkpoint in checkpoints(subject)
    )


def _way(candidate: Candidate, title: str) -> Way:
    checkpoint, layout = candidate.checkpoint.name.value, candidate.layout
    where = f"{layout.nodes} nodes of " if layout.nodes > 1 else ""
    name = f"{checkpoint} {layout.name} on {where}{layout.gpus_per_node} x {title}"
    return Way(candidate, name, Pace(candidate))


def checkpoints(subject: Subject) -> tuple[Checkpoint, ...]:
    """The model's checkpoints, or the one that the user pins."""
    pinned = subject.spec.model.checkpoint.pinned
    return tuple(c for c in subject.architecture.checkpoints if pinned in (None, c.name))


def fixed_draft(subject: Subject) -> int | None:
    """Tokens to draft if the user says so, None where the plan may choose."""
    wanted = subject.spec.serving.speculation
    if wanted.mode is SpeculationMode.FIXED:
        return wanted.tokens
    drafts = subject.architecture.draft is not None and acceptance(subject) is not None
    return None if wanted.mode is SpeculationMode.AUTO and drafts else 0
