"""What a model would run if nothing of it were stored: refuse, wait, or a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.objects import ClaimView, NodeView
from kindling_operator.model.plan import EnginePlan, Verdict
from kindling_operator.plan.cachelimit import limit_problem
from kindling_operator.plan.checks import judge, weights_are_nowhere
from kindling_operator.plan.checks_arguments import argument_is_planned
from kindling_operator.plan.engine import engine_plan
from kindling_operator.plan.nothing_fits import nothing_fits
from kindling_operator.plan.room import Room
from kindling_operator.plan.rules.features import asked_host_memory
from kindling_operator.plan.search import Option, Search, preference, search, without_tier
from kindling_operator.plan.shortfall import claim_shortfall, cpu_shortfall, replica_shortfall
from kindling_operator.plan.subject import Subject


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome: `accepted` judges the spec, `plan` is None if that refuses it.

    `waiting` says what is missing before a first pod makes sense; nothing is created until then.
    """

    accepted: Verdict
    plan: EnginePlan | None = None
    waiting: Verdict | None = None


def choose(subject: Subject, room: Room, claims: Iterable[ClaimView]) -> Choice:
    """The best option that has room now, else the best option and what it waits for."""
    # 1. The spec alone.
    refused = judge(subject)
    if refused is not None:
        return Choice(refused)
    # 2. What fits at all, then the facts that no device can change.
    found = search(subject, room.fleet)
    refused = (
        weights_are_nowhere(subject) if found.options else nothing_fits(subject, found, room.fleet)
    )
    if refused is not None:
        return Choice(refused)
    # 3. The first that has room.
    placed = _first_with_room(subject, found, room)
    option = placed or found.options[0]
    plan = engine_plan(subject, option, found)
    refused = argument_is_planned(subject, plan.argv) or limit_problem(subject, plan)
    if refused is not None:
        return Choice(refused)
    # 4. What must exist before its first pod.
    waiting = claim_shortfall(subject.model.key.namespace, plan.weights, claims)
    if waiting is None and placed is None:
        waiting = _no_room(subject, option, room)
    return Choice(accepted(plan), plan, waiting)


def _first_with_room(subject: Subject, found: Search, room: Room) -> Option | None:
    """The best option that has room; among equals the one that leaves the fewest GPUs beside it."""
    for _, equals in groupby(found.options, key=preference):
        placed = [
            (_left_beside(option, names, room), option.name, option)
            for each in equals
            for option, names in _placed(subject, each, room)
        ]
        if placed:
            return min(placed, key=lambda each: each[:2])[2]
    return None


def _placed(
    subject: Subject, option: Option, room: Room
) -> Iterator[tuple[Option, tuple[str, ...]]]:
    """The option with its nodes if it has room, without a KV tier that nobody asked for if only
    so."""
    if option.gpu is not None and room.most_free(option.gpu.product) < option.layout.gpus_per_node:
        # On a busy cluster most end here, before anything else that they need is counted.
        return
    names = room.place(option.demand, option.pool)
    if names is None and (least := _least(subject, option)) is not option:
        option, names = least, room.place(least.demand, least.pool)
    if names is not None:
        yield option, names


def _least(subject: Subject, option: Option) -> Option:
    """The option as it is taken where memory is scarce: a KV tier only if that is asked for."""
    if option.sizing.host_tier and asked_host_memory(subject) is None:
        return without_tier(option)
    return option


def _left_beside(option: Option, names: tuple[str, ...], room: Room) -> int:
    """GPUs that stay free on the nodes of a replica."""
    return sum(room.left(name).gpus - option.demand.gpus_per_node for name in names)


def _no_room(subject: Subject, option: Option, room: Room) -> Verdict:
    """What the option waits for: of memory, the least with which it would be taken."""
    if option.gpu is None and not any(_is_large_enough(node, option) for node in option.pool.nodes):
        return cpu_shortfall(subject, option.sizing, room.fleet)
    return replica_shortfall(subject, _least(subject, option).demand, option.pool, room)


def _is_large_enough(node: NodeView, option: Option) -> bool:
    sizing = option.sizing
    return node.memory >= sizing.memory and node.cpu_millis >= sizing.cpu_millis


def accepted(plan: EnginePlan) -> Verdict:
    """The verdict on a spec that has this plan."""
    if not plan.warning:
        return Verdict(ConditionType.ACCEPTED, Reason.SPEC_ACCEPTED, f"{plan.summary}.")
    return Verdict(
        ConditionType.ACCEPTED,
        Reason.UNVERIFIED,
        f"{plan.summary}: accepted, but unverified: {plan.warning}.",
    )
