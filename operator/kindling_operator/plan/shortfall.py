"""What a new replica waits for, said with the number, the best node and the fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ClaimView, NodeView
from kindling_operator.model.plan import Verdict, WeightsMount
from kindling_operator.model.quantities import format_bytes
from kindling_operator.plan.devices import selector_text
from kindling_operator.plan.fleet import Fleet, Pool, domain
from kindling_operator.plan.kept_out import kept_out
from kindling_operator.plan.listing import few, joined
from kindling_operator.plan.mounts import takes_room
from kindling_operator.plan.room import Amounts, Demand, Room
from kindling_operator.plan.sizing import Sizing
from kindling_operator.plan.subject import Subject


def claim_shortfall(
    namespace: str, weights: WeightsMount, claims: Iterable[ClaimView]
) -> Verdict | None:
    """A claim that does not exist, or is on its way out.

    One that is merely Pending is fine: a storage class may bind it to the first pod.
    """
    named = (
        (weights.claim, weights.uri, "spec.model.weights.uri"),
        (weights.cache_claim, "the cache", "spec.model.weights.cacheClaim"),
    )
    known = {(claim.namespace, claim.name): claim for claim in claims}
    verdicts = (
        _claim_problem(f"PersistentVolumeClaim {namespace}/{name} ({use})", field, found)
        for name, use, field in named
        if name
        for found in (known.get((namespace, name)),)
    )
    return next((verdict for verdict in verdicts if verdict is not None), None)


def _claim_problem(name: str, field: str, found: ClaimView | None) -> Verdict | None:
    if found is None:
        return _waiting(
            Reason.CLAIM_NOT_BOUND, f"{name} does not exist: create it, or correct {field}."
        )
    if found.terminating or found.phase == "Lost":
        state = "is being deleted" if found.terminating else "has lost its volume"
        return _waiting(Reason.CLAIM_NOT_BOUND, f"{name} {state}: name another claim in {field}.")
    return None


def replica_shortfall(subject: Subject, demand: Demand, pool: Pool, room: Room) -> Verdict:
    """What the pool lacks for one replica: nodes, GPUs, or what its pods need beside them.

    Holders in other namespaces are named only if allowed.
    """
    if demand.gpu is None and not pool.nodes:
        return _waiting(Reason.NO_MATCHING_NODE, _NOBODY)
    if demand.nodes > 1:
        return _group_shortfall(subject, demand, pool, room)
    best = room.best(pool.nodes)
    if demand.gpu is not None and (
        best is None or room.left(best.name).gpus < demand.gpus_per_node
    ):
        return _gpu_shortfall(subject, demand, best, room)
    enough = [n for n in pool.nodes if room.left(n.name).gpus >= demand.gpus_per_node]
    if not enough:
        return _waiting(Reason.NO_MATCHING_NODE, _NOBODY)
    return _beside_shortfall(subject, demand, enough, room)


def _gpu_shortfall(subject: Subject, demand: Demand, best: NodeView | None, room: Room) -> Verdict:
    """No node has so many free GPUs; those that nobody may use are told, as they may be the way."""
    gpus = demand.gpus_per_node
    what = f"{gpus} x {_product(demand)} in one node"
    if best is None:
        return _waiting(
            Reason.INSUFFICIENT_GPU, f"Needs {what} and no usable node has any: add a node."
        )
    free = max(0, room.left(best.name).gpus)
    held = _held_text(subject, [best.name], room)
    return _waiting(
        Reason.INSUFFICIENT_GPU,
        f"Needs {what}; best node {best.name} has {free} of {best.gpus} free{held}"
        f"{_closed_text(subject, demand, room)}: free {gpus - free} or add a node.",
    )


def _closed_text(subject: Subject, demand: Demand, room: Room) -> str:
    """What nodes of the same GPUs have that are cordoned, not ready or tainted."""
    assert demand.gpu is not None
    product, placement = demand.gpu.product, subject.spec.placement
    closed = kept_out(room.fleet, placement, lambda gpu: gpu.product == product, selected=True)
    return f", and there are {few(closed)}" if closed else ""


def _held_text(subject: Subject, nodes: Iterable[str], room: Room) -> str:
    """Who has the GPUs of these nodes, the largest first: ", 4 held by ml/a, 2 held in other
    namespaces"."""
    names, parts = tuple(nodes), []
    for verb, books in (("held", room.held), ("reserved", room.reserved)):
        counts: Counter[Key] = Counter()
        for name in names:
            counts.update(books.get(name, {}))
        show_foreign, mine = subject.environment.name_foreign_holders, subject.model.key.namespace
        shown = [h for h in counts if show_foreign or h.namespace == mine]
        shown.sort(key=lambda holder: (-counts[holder], holder))
        hidden = counts.total() - sum(counts[holder] for holder in shown)
        by = "by" if verb == "held" else "for"
        where = "in" if verb == "held" else "for"
        told = few([f"{counts[holder]} {verb} {by} {holder}" for holder in shown])
        parts += [told] if told else []
        parts += [f"{hidden} {verb} {where} other namespaces"] if hidden else []
    return "".join(f", {part}" for part in parts)


def _beside_shortfall(
    subject: Subject, demand: Demand, enough: Sequence[NodeView], room: Room
) -> Verdict:
    """Nodes have the GPUs, and none of them what the pod needs beside."""
    need = demand.per_node
    best = min(
        enough,
        key=lambda node: (_share_short(room.left(node.name), need), node.name),
    )
    left, short = room.left(best.name), room.left(best.name).short_of(need)
    wants = [f"{demand.gpus_per_node} x {_product(demand)}"] if demand.gpus_per_node else []
    wants += _texts(need, short)
    return _waiting(
        Reason.INSUFFICIENT_RESOURCES,
        f"Needs {joined(wants, 'and')} in one node; best node {best.name} has"
        f" {joined(_texts(left, short), 'and')} free beside the requests of its pods:"
        f" {_elsewhere(subject, short)}{_freed(demand, [best], short)}add a node.",
    )


def _share_short(left: Amounts, need: Amounts) -> float:
    """How much of the need lacks, as a sum of shares."""
    short = left.short_of(need)
    return sum(a / b for a, b in zip(short, need, strict=True) if b)


def _group_shortfall(subject: Subject, demand: Demand, pool: Pool, room: Room) -> Verdict:
    """Too few nodes have room at the same time for a replica of several pods."""
    count, nearest = _nearest(demand, pool, room)
    short = _nearest_beside(demand, pool, room)
    if short:
        return _group_beside_shortfall(subject, demand, pool, room, short)
    where, whole = _where(demand, pool)
    held = _held_text(subject, nearest, room).removeprefix(", ")
    others = f", next best {few(nearest)}{f' ({held})' if held else ''}" if nearest else ""
    lacks = _most_short(demand, nearest, room)
    named = Amounts(cpu_millis=1, memory=1, ephemeral=lacks.ephemeral)
    gpus = f"{demand.gpus_per_node} x {_product(demand)}"
    first, *rest = _texts(demand.per_node, named)
    return _waiting(
        Reason.INSUFFICIENT_GPU if nearest else Reason.INSUFFICIENT_RESOURCES,
        f"Needs {demand.nodes} nodes{where} with {joined([f'{gpus}, {first}', *rest], 'and')}"
        f" free each; {count} of {whole} have that{others}: {_elsewhere(subject, lacks)}"
        f"free {max(1, demand.nodes - count)} more or add nodes.",
    )


def _group_beside_shortfall(
    subject: Subject, demand: Demand, pool: Pool, room: Room, nearest: Sequence[str]
) -> Verdict:
    """Enough nodes have the GPUs for a group, and too few what its pods need beside."""
    where, whole = _where(demand, pool)
    lacks = _most_short(demand, nearest, room)
    wants = [f"{demand.gpus_per_node} x {_product(demand)}", *_texts(demand.per_node, lacks)]
    others = [f"{name} with {joined(_texts(room.left(name), lacks), 'and')}" for name in nearest]
    nodes = [room.fleet.node(name) for name in nearest]
    return _waiting(
        Reason.INSUFFICIENT_RESOURCES,
        f"Needs {demand.nodes} nodes{where} with {joined(wants, 'and')} free each;"
        f" {demand.nodes - len(nearest)} of {whole} have that, next best {few(others)}:"
        f" {_elsewhere(subject, lacks)}{_freed(demand, nodes, lacks, ' on each')}add nodes.",
    )


def _where(demand: Demand, pool: Pool) -> tuple[str, str]:
    """Whether the nodes of a group share a domain, and of how many it is said how many do."""
    return (" of one NVLink domain", "one") if demand.one_clique else ("", f"{len(pool.nodes)}")


def _most_short(demand: Demand, names: Iterable[str], room: Room) -> Amounts:
    """The most that any of these nodes lacks, of each."""
    short = [room.left(name).short_of(demand.per_node) for name in names]
    return Amounts(*map(max, zip(Amounts(), *short, strict=True)))


def _texts(amounts: Amounts, asked: Amounts) -> list[str]:
    """The amounts, never less than none, of all that is asked about."""
    return [text(max(0, getattr(amounts, n))) for n, text in _UNITS if getattr(asked, n)]


def _elsewhere(subject: Subject, lacks: Amounts) -> str:
    """The way out where a node's disk does not hold the weights."""
    if not lacks.ephemeral or not takes_room(subject.weights):
        return ""
    return "set spec.model.weights.cacheClaim or a pvc:// URI, or "


def _freed(demand: Demand, nodes: Iterable[NodeView], lacks: Amounts, where: str = "") -> str:
    """What to free, where that would do: not on nodes that are too small when they are empty."""
    need = demand.per_node
    for node in nodes:
        for name, _ in _UNITS:
            whole = getattr(node, name)
            if whole and getattr(lacks, name) and whole < getattr(need, name):
                return ""
    return f"free {joined(_texts(lacks, lacks), 'and')}{where} or "


def _nearest_beside(demand: Demand, pool: Pool, room: Room) -> list[str]:
    """The nodes that have the GPUs and lack the least beside them, as many as are missing, of one
    NVLink domain if they must share one; none where there are not so many."""
    need = demand.per_node
    fits = set(room.fitting(demand, pool))
    short: dict[str, list[tuple[float, str]]] = {}
    free: Counter[str] = Counter()
    for node in pool.nodes:
        group, left = domain(node) if demand.one_clique else "", room.left(node.name)
        if node.name in fits:
            free[group] += 1
        elif left.gpus >= need.gpus:
            short.setdefault(group, []).append((_share_short(left, need), node.name))
    complete = [
        sorted(each)[: demand.nodes - free[group]]
        for group, each in short.items()
        if free[group] + len(each) >= demand.nodes > free[group]
    ]
    return [name for _, name in min(complete, key=lambda each: (len(each), each), default=[])]


def _nearest(demand: Demand, pool: Pool, room: Room) -> tuple[int, list[str]]:
    """How many nodes have room, of one NVLink domain if they must share one, and those that lack
    the fewest GPUs, as many as are missing."""

    def group(name: str) -> str:
        return domain(room.fleet.node(name)) if demand.one_clique else ""

    free = Counter(map(group, room.fitting(demand, pool)))
    others = list(room.lacking(demand, pool))
    first = group(others[0]) if others else ""
    best = min(free, key=lambda each: (-free[each], each), default=first)
    lacking = (name for name in others if group(name) == best)
    return free[best], sorted(islice(lacking, max(1, demand.nodes - free[best])))


def passed_by(verdict: Verdict, others: Sequence[Key], *, key: Key, show_foreign: bool) -> Verdict:
    """The shortfall of a model that later ones pass by, as they need less than it: said, so that
    nobody starves in silence. Only room is waited for by it: other verdicts stay as they are."""
    if not others or verdict.reason is not Reason.INSUFFICIENT_GPU:
        return verdict
    shown = [str(other) for other in others if show_foreign or other.namespace == key.namespace]
    names = f" ({', '.join([*shown[:_NAMED], *(['...'] if len(shown) > _NAMED else [])])})"
    one = len(others) == 1
    count = "1 model" if one else f"{len(others)} models"
    need = "needs less gets" if one else "need less get"
    what, _, fix = verdict.message.rpartition(": ")
    return replace(
        verdict,
        message=f"{what}; {count} behind it{names if shown else ''} that {need} such GPUs"
        f" meanwhile: {fix}",
    )


def cpu_shortfall(subject: Subject, sizing: Sizing, fleet: Fleet) -> Verdict:
    """No node is large enough, or none is admitted."""
    placement = subject.spec.placement
    usable = fleet.usable(placement, gpu=False).nodes
    if not usable:
        selector = selector_text(placement)
        which = f"spec.placement.nodeSelector {selector} and its tolerations" if selector else ""
        return _waiting(
            Reason.NO_MATCHING_NODE,
            f"No node matches {which}: label a node or correct the selector."
            if which
            else "No ready node admits the pods: add one, or add spec.placement.tolerations.",
        )
    best = max(usable, key=lambda node: (node.memory, node.cpu_millis, node.name))
    return _waiting(
        Reason.INSUFFICIENT_RESOURCES,
        f"Needs {_cpus(sizing.cpu_millis)} CPU and {format_bytes(sizing.memory)} of memory on an"
        f" amd64 node; the largest node, {best.name} ({best.architecture}), has"
        f" {_cpus(best.cpu_millis)} CPU and {format_bytes(best.memory)}: add a larger node.",
    )


def _product(demand: Demand) -> str:
    return demand.gpu.product if demand.gpu is not None else "GPU"


def _cpus(millis: int) -> str:
    return f"{millis / 1000:g}"


_NOBODY = "No node admits the pods any more: add one."

_NAMED = 3
"""So many models are named in a sentence."""

_UNITS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("cpu_millis", lambda millis: f"{_cpus(millis)} CPU"),
    ("memory", lambda count: f"{format_bytes(count)} of memory"),
    ("ephemeral", lambda count: f"{format_bytes(count)} of ephemeral storage"),
    ("pods", lambda count: f"room for {count} more pod{'' if count == 1 else 's'}"),
)


def _waiting(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.SCHEDULED, reason, message)
