"""Questions to the planner beside the decision itself: it is pure, so asking costs nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from kindling_operator.cli_decision import obstacle
from kindling_operator.model.names import Key
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import RejectedOption
from kindling_operator.plan import plan
from kindling_operator.plan.checks import judge
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.refusal import rejected
from kindling_operator.plan.search import search
from kindling_operator.plan.subject import subject_of

ONE_BY_ONE: Final = 20
"""Earlier models that are each left out in turn; every one costs a sweep over all models."""


def considered(snapshot: Snapshot, key: Key) -> tuple[RejectedOption, ...]:
    """What was judged for a model of which nothing fits, the nearest first.

    Nothing where the spec alone is refused: then no option was looked at.
    """
    model = snapshot.models[key]
    subject = subject_of(model, snapshot.environment) if isinstance(model, ParsedModel) else None
    if subject is None or judge(subject) is not None:
        return ()
    found = search(subject, fleet_of(snapshot.nodes))
    return tuple(rejected(each.name, each.reason.value, each.message) for each in found.rejected)


def awaited(snapshot: Snapshot, key: Key, earlier: Sequence[Key]) -> tuple[Key, ...]:
    """The models without which this one would have its place; none if that would not help.

    Each alone if one of them is enough, else all of them together. A cluster may have thousands:
    then only all together are asked for.
    """
    alone: tuple[Key, ...] = ()
    if len(earlier) <= ONE_BY_ONE:
        alone = tuple(other for other in earlier if fits_without(snapshot, key, {other}))
    if alone or len(earlier) < 2:
        return alone
    return tuple(earlier) if fits_without(snapshot, key, set(earlier)) else ()


def fits_without(snapshot: Snapshot, key: Key, gone: Collection[Key]) -> bool:
    """Whether a model would get its pods if these models and their pods were not there."""
    others = replace(
        snapshot,
        models={each: model for each, model in snapshot.models.items() if each not in gone},
        pods=tuple(pod for pod in snapshot.pods if pod.model not in gone),
    )
    return obstacle(plan(others, key)) is None
