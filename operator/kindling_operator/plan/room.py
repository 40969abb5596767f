"""What is free on every node, who holds the rest, and where a replica fits.

Least fragmentation is one rule: of the nodes that fit, the fullest is taken, ties by name.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from kindling_operator.model.names import Key
from kindling_operator.model.objects import DeviceHold, NodeUse, NodeView, PodView
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.fleet import Fleet, Pool, domain

_UNLIMITED = 1 << 62
"""Free amount of what a node does not state."""

Holder = Key
"""A model by namespace and name, or any other pod by its own."""


class Amounts(NamedTuple):
    """What is free on a node, or taken of it. CPU in millicores, memory and storage in bytes."""

    gpus: int = 0
    cpu_millis: int = 0
    memory: int = 0
    ephemeral: int = 0
    pods: int = 0

    def plus(self, other: Amounts, times: int = 1) -> Amounts:
        """The sum with `times` the other; -1 subtracts."""
        # Spelled out, as it is asked for once per node and pod of the cluster.
        return Amounts(
            self.gpus + times * other.gpus,
            self.cpu_millis + times * other.cpu_millis,
            self.memory + times * other.memory,
            self.ephemeral + times * other.ephemeral,
            self.pods + times * other.pods,
        )

    def covers(self, need: Amounts) -> bool:
        """Whether there is enough of everything."""
        return (
            self.gpus >= need.gpus
            and self.cpu_millis >= need.cpu_millis
            and self.memory >= need.memory
            and self.ephemeral >= need.ephemeral
            and self.pods >= need.pods
        )

    def short_of(self, need: Amounts) -> Amounts:
        """What lacks of `need`, 0 where enough is there."""
        return Amounts(*(max(0, b - a) for a, b in zip(self, need, strict=True)))


@dataclass(frozen=True, slots=True)
class Demand:
    """One replica: `nodes` pods, each on a node of its own, each with these requests.

    `gpu` None is for a pod that computes on CPU. CPU in millicores, memory and ephemeral storage in
    bytes. With `one_clique` all its nodes are of one NVLink domain.
    """

    gpu: GpuClass | None
    gpus_per_node: int = 0
    nodes: int = 1
    cpu_millis: int = 0
    memory: int = 0
    ephemeral: int = 0
    one_clique: bool = False

    @property
    def per_node(self) -> Amounts:
        """What each of its pods takes."""
        return Amounts(self.gpus_per_node, self.cpu_millis, self.memory, self.ephemeral, 1)


class Room:
    """The books of one moment; `without` answers "what if".

    `held` counts the GPUs of pods that are on a node, `reserved` those that are kept free for pods
    which are yet to come, both by node and holder.
    """

    def __init__(
        self,
        fleet: Fleet,
        free: Mapping[str, Amounts],
        held: Mapping[str, Mapping[Holder, int]] = MappingProxyType({}),
    ) -> None:
        """`free` tells of every node of the fleet."""
        self.fleet = fleet
        self.held = {name: dict(holders) for name, holders in held.items()}
        self.reserved: dict[str, dict[Holder, int]] = {}
        self._free = dict(free)
        # Made for a product (None: all nodes) when it is asked for, and kept sorted from then on.
        self._ranks: dict[str | None, list[tuple[int, int, str]]] = {}
        # Room only becomes less until something is given back: what found none, finds none.
        self._full: set[tuple[Demand, frozenset[str]]] = set()

    @property
    def free(self) -> Mapping[str, int]:
        """Free GPUs by node; less than none where more are held than the node still has."""
        return {name: amounts.gpus for name, amounts in self._free.items()}

    def left(self, name: str) -> Amounts:
        """What is free on a node; nothing on one that is not there."""
        return self._free.get(name, Amounts())

    def most_free(self, product: str) -> int:
        """Free GPUs of the node of a product that has most."""
        ranks = self._ranked(product)
        return ranks[-1][1] if ranks else 0

    def place(self, demand: Demand, pool: Pool) -> tuple[str, ...] | None:
        """The nodes of one replica among those of the pool, by name; None if it has no room."""
        if (demand, pool.names) in self._full:
            return None
        found = self._place(demand, pool)
        if found is None:
            self._full.add((demand, pool.names))
        return found

    def fitting(self, demand: Demand, pool: Pool) -> Iterator[str]:
        """The nodes of the pool that one pod of it fits, the fullest first."""
        return self._fitting(demand, pool.names)

    def lacking(self, demand: Demand, pool: Pool) -> Iterator[str]:
        """The nodes of the pool with too few free GPUs for one pod of it, the emptiest first."""
        ranks = self._ranked(demand.gpu.product if demand.gpu is not None else None)
        for place in reversed(range(bisect_left(ranks, (0, demand.gpus_per_node, "")))):
            _, _, name = ranks[place]
            if name in pool.names:
                yield name

    def best(self, nodes: Iterable[NodeView]) -> NodeView | None:
        """The node with most free GPUs, ties by name."""
        return min(nodes, key=lambda node: (-self.left(node.name).gpus, node.name), default=None)

    def take(
        self, amounts: Amounts, names: Iterable[str], *, of: Holder, bound: bool = False
    ) -> None:
        """Book what each of these nodes gives to a holder: kept free for it, or `bound` already."""
        books = self.held if bound else self.reserved
        for name in names:
            self._move(name, self._free[name].plus(amounts, -1))
            if amounts.gpus:
                holders = books.setdefault(name, {})
                holders[of] = holders.get(of, 0) + amounts.gpus

    def release(self, amounts: Amounts, names: Iterable[str], *, of: Holder) -> None:
        """Take back what `take` has kept free."""
        self._full.clear()
        for name in names:
            self._give(self.reserved, name, amounts, of)

    @contextmanager
    def without(self, pods: Iterable[PodView]) -> Iterator[None]:
        """The room as if these pods of its nodes were not there; what is taken meanwhile must be
        released before they come back."""
        leaving, full = tuple(pods), self._full
        self._full = set()
        for pod in leaving:
            self._give(self.held, pod.node, requested(pod), holder_of(pod))
        try:
            yield
        finally:
            for pod in leaving:
                self.take(requested(pod), (pod.node,), of=holder_of(pod), bound=True)
            self._full = full

    def has(self, pod: PodView) -> bool:
        """Whether a pod takes its share of one of the nodes."""
        return pod.node in self._free and not pod.ended

    def _give(
        self, books: dict[str, dict[Holder, int]], name: str, amounts: Amounts, of: Holder
    ) -> None:
        self._move(name, self._free[name].plus(amounts))
        if amounts.gpus:
            books[name][of] -= amounts.gpus
            if not books[name][of]:
                del books[name][of]

    def _place(self, demand: Demand, pool: Pool) -> tuple[str, ...] | None:
        """The first group of nodes that is complete, when the fullest nodes come first.

        Traffic between zones is slow, so they are mixed only where no zone holds a replica; NVLink
        domains never are where the replica must stay in one.
        """
        groups: dict[str, list[str]] = {}
        fitting: list[str] = []
        for name in self._fitting(demand, pool.names):
            node = self.fleet.node(name)
            group = groups.setdefault(domain(node) if demand.one_clique else node.zone, [])
            group.append(name)
            if len(group) == demand.nodes:
                return tuple(group)
            fitting.append(name)
        if demand.one_clique or len(fitting) < demand.nodes:
            return None
        return tuple(fitting[: demand.nodes])

    def _fitting(self, demand: Demand, names: frozenset[str]) -> Iterator[str]:
        """The nodes that one pod of it fits, the fullest first."""
        need, gpu = demand.per_node, demand.gpu
        ranks = self._ranked(gpu.product if gpu is not None else None)
        for least in (0, 1) if gpu is None else (0,):
            amount = need.memory if gpu is None else need.gpus
            start = bisect_left(ranks, (least, amount, ""))
            for rank, _, name in ranks[start:]:
                if rank > least:
                    break
                if name in names and self._free[name].covers(need):
                    yield name

    def _ranked(self, product: str | None) -> list[tuple[int, int, str]]:
        ranks = self._ranks.get(product)
        if ranks is None:
            nodes = self.fleet.nodes if product is None else self.fleet.of_product(product)
            ranks = self._ranks[product] = sorted(self._rank(node.name, product) for node in nodes)
        return ranks

    def _rank(self, name: str, product: str | None) -> tuple[int, int, str]:
        """Where a node stands: by free GPUs among its product; for CPU work by free memory, those
        without GPUs first."""
        left = self._free[name]
        if product is not None:
            return 0, left.gpus, name
        return int(left.gpus > 0), left.memory, name

    def _move(self, name: str, left: Amounts) -> None:
        """Keep the ranks sorted while a node's free amounts change."""
        gpu = self.fleet.classes[name]
        kinds = (None, gpu.product) if gpu is not None else (None,)
        kept = [product for product in kinds if product in self._ranks]
        for product in kept:
            ranks = self._ranks[product]
            del ranks[bisect_left(ranks, self._rank(name, product))]
        self._free[name] = left
        for product in kept:
            insort(self._ranks[product], self._rank(name, product))


def room_of(
    fleet: Fleet,
    pods: Iterable[PodView],
    *,
    used: Mapping[str, NodeUse] = MappingProxyType({}),
    device_holds: Iterable[DeviceHold] = (),
) -> Room:
    """The room beside every bound pod that still holds its share.

    `used` is what other pods take of each node and `device_holds` are GPUs that claims have, both
    as in Snapshot.
    """
    free = {node.name: _beside(node, used.get(node.name, _UNUSED)) for node in fleet.nodes}
    held: dict[str, Counter[Holder]] = {}
    for pod in pods:
        if pod.node not in free or pod.ended:
            continue
        free[pod.node] = free[pod.node].plus(requested(pod), -1)
        if pod.gpus:
            held.setdefault(pod.node, Counter())[holder_of(pod)] += pod.gpus
    for hold in device_holds:
        if hold.node in free:
            free[hold.node] = free[hold.node].plus(Amounts(hold.gpus), -1)
            held.setdefault(hold.node, Counter())[Key(hold.namespace, hold.name)] += hold.gpus
    return Room(fleet, free, held)


def requested(pod: PodView) -> Amounts:
    """What a pod takes of its node."""
    return Amounts(pod.gpus, pod.cpu_millis, pod.memory, pod.ephemeral, 1)


def holder_of(pod: PodView) -> Holder:
    """The model of a pod of ours, else the pod itself."""
    return pod.model or Key(pod.namespace, pod.name)


_UNUSED = NodeUse()


def _beside(node: NodeView, use: NodeUse) -> Amounts:
    """What a node gives to pods, less what is used of it."""
    return Amounts(
        node.gpus,
        (node.cpu_millis or _UNLIMITED) - use.cpu_millis,
        (node.memory or _UNLIMITED) - use.memory,
        (node.ephemeral or _UNLIMITED) - use.ephemeral,
        (node.pods or _UNLIMITED) - use.pods,
    )
