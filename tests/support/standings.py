"""Revisions and how they stand, for tests of the rollout."""

from dataclasses import replace
from typing import Any

from tests.support.observed import NOW, revision

from kindling_operator.model.plan import RolloutState
from kindling_operator.plan.rollout import Step
from kindling_operator.plan.standing import Standing


def standing(
    name: str,
    replicas: int | None = 2,
    *,
    available: int = 0,
    routed: int = 0,
    served: bool = False,
    **changes: Any,
) -> Standing:
    """A revision whose replicas have their nodes; `available` and `routed` of them serve."""
    base = Standing(
        revision(name, served=served),
        replicas=replicas,
        placed=replicas or 0,
        available=available,
        routed=routed,
        proven=routed > 0,
        deployed_at=NOW if replicas is not None else None,
        trying_since=NOW if replicas and not available else None,
    )
    return replace(base, **changes)


def serving(name: str, replicas: int = 2, **changes: Any) -> Standing:
    return standing(name, replicas, available=replicas, routed=replicas, served=True, **changes)


def shown(step: Step) -> tuple[dict[str, int], list[str], RolloutState]:
    targets = {target.revision.hash: target.replicas for target in step.targets}
    return targets, [each.hash for each in step.kept], step.state
