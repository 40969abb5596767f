"""Questions to the planner beside the decision itself: it is pure, so asking costs nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kindling_operator.cli_decision import obstacle
from kindling_operator.model.names import Key
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan import plan


def awaited(snapshot: Snapshot, key: Key, earlier: Sequence[Key]) -> tuple[Key, ...]:
    """The models without which this one would have its place; none if that would not help.

    Each alone if one of them is enough, else all of them together.
    """
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
