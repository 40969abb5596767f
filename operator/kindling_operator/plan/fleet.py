"""The nodes as one model may use them: made once for all models, answered from what is remembered.

Models that select the same nodes and tolerate the same taints share their answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from kindling_operator.model.api_placement import Placement, Toleration
from kindling_operator.model.names import (
    LABEL_ARCHITECTURE,
    LABEL_DRIVER,
    LABEL_DRIVER_OLD,
    LABEL_GKE_PARTITION,
    LABEL_GKE_SHARING,
    LABEL_GPU_MEMORY,
    LABEL_GPU_REPLICAS,
    LABEL_GPU_SHARING,
)
from kindling_operator.model.objects import NodeView, Taint
from kindling_operator.plan.devices import (
    GPU_TOLERATION,
    GpuClass,
    admits,
    gpu_class,
    wanted_class,
)

TOLD: Final = (
    LABEL_ARCHITECTURE,
    LABEL_GPU_MEMORY,
    LABEL_DRIVER,
    LABEL_DRIVER_OLD,
    LABEL_GPU_REPLICAS,
    LABEL_GPU_SHARING,
    LABEL_GKE_SHARING,
    LABEL_GKE_PARTITION,
)
"""Labels that a pod may demand something of (plan/requirements.py)."""

_Answer = TypeVar("_Answer")

Selector = tuple[tuple[str, str], ...]
Said = tuple[tuple[str, str], ...]
"""What a node says in each of the labels `TOLD`."""


@dataclass(frozen=True)
class Pool:
    """Usable nodes by name: those with GPUs of one class, or all of them (`gpu` None).

    Models share it, so that what is counted of its nodes is counted once.
    """

    gpu: GpuClass | None
    nodes: tuple[NodeView, ...]
    names: frozenset[str] = field(compare=False)

    @property
    def largest(self) -> int:
        """GPUs of the node that has most."""
        return max((node.gpus for node in self.nodes), default=0)

    @cached_property
    def gpus(self) -> int:
        """GPUs of all its nodes."""
        return sum(node.gpus for node in self.nodes)

    @cached_property
    def least_memory(self) -> Mapping[int, int]:
        """Bytes of memory of the smallest node for each number of GPUs."""
        found: dict[int, int] = {}
        for node in self.nodes:
            found[node.gpus] = min(node.memory, found.get(node.gpus, node.memory))
        return found

    @cached_property
    def says(self) -> frozenset[Said]:
        """What its nodes say of themselves, each only once."""
        return frozenset(
            tuple((key, node.labels.get(key, "")) for key in TOLD) for node in self.nodes
        )

    def nodes_with(self, gpus: int) -> int:
        """Nodes that have at least so many GPUs."""
        return sum(1 for node in self.nodes if node.gpus >= gpus)

    def clique_with(self, gpus: int) -> int:
        """The most nodes of one NVLink domain that have at least so many GPUs each."""
        found = Counter(domain(node) for node in self.nodes if node.gpus >= gpus)
        return max(found.values(), default=0)


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes with GPUs of one class that differ in nothing that keeps pods off them.

    `gpus` are those of all its nodes, `first` is the first of them by name.
    """

    gpu: GpuClass
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    gpus: int
    first: str


def domain(node: NodeView) -> str:
    """The NVLink domain of a node's GPUs: the clique that it names, else the node alone."""
    return f"clique {node.clique}" if node.clique else f"node {node.name}"


def pool_of(nodes: Iterable[NodeView], gpu: GpuClass | None = None) -> Pool:
    """These nodes as a pool."""
    found = tuple(nodes)
    return Pool(gpu, found, frozenset(node.name for node in found))


class Fleet:
    """All nodes, and which of them a model may use; two fleets of the same nodes answer the same.

    `nodes` are sorted by name; `classes` tells each node's class of GPU by name, None where it has
    no GPU or does not say which; `answers` is all that `answer` has ever found.
    """

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self._by_name = {node.name: node for node in self.nodes}
        self._by_class: dict[GpuClass, list[NodeView]] = {}
        self.classes: Mapping[str, GpuClass | None] = dict(self._classified())
        self._labelled: dict[str, dict[str, list[NodeView]]] = {}
        self._tainted: dict[Selector, Mapping[tuple[Taint, ...], list[NodeView]]] = {}
        self._admitted: dict[tuple[Selector, frozenset[tuple[Taint, ...]]], Pool] = {}
        self._usable: dict[tuple[Selector, tuple[Toleration, ...]], Pool] = {}
        self._blocks: dict[Selector, tuple[Block, ...]] = {}
        self._alike: dict[frozenset[str], Pool] = {}
        self.answers: dict[Hashable, Any] = {}
        self._pools: dict[frozenset[str], tuple[Pool, ...]] = {}

    def answer(self, question: Hashable, find: Callable[[], _Answer]) -> _Answer:
        """What was found for a question about these nodes, before or now.

        The answer may depend on nothing else that changes while the operator runs.
        """
        found: _Answer | None = self.answers.get(question)
        if found is None:
            found = self.answers[question] = find()
        return found

    def usable(self, placement: Placement | None, *, gpu: bool) -> Pool:
        """The nodes that the pods of a model may be scheduled to, whatever GPUs they have."""
        wanted = placement or Placement()
        tolerations = (*wanted.tolerations, *((GPU_TOLERATION,) if gpu else ()))
        selector = selector_of(placement)
        signature = (selector, tolerations)
        found = self._usable.get(signature)
        if found is None:
            # Nodes share few sets of taints; each is judged once.
            taints = (each for each in self._by_taints(selector) if admits(each, tolerations))
            found = self._usable[signature] = self._tolerated(selector, frozenset(taints))
        return found

    def blocks(self, selector: Selector) -> tuple[Block, ...]:
        """The nodes with these labels, usable or not, by what keeps pods off them."""
        found = self._blocks.get(selector)
        if found is None:
            found = self._blocks[selector] = tuple(self._alike_nodes(selector))
        return found

    def pools(self, placement: Placement | None) -> tuple[Pool, ...]:
        """The usable nodes by class of GPU, only classes that ``spec.placement.gpu`` admits."""
        usable = self.usable(placement, gpu=True)
        found = self._pools.get(usable.names)
        if found is None:
            by_class: dict[GpuClass, list[NodeView]] = {}
            for node in usable.nodes:
                gpu = self.classes[node.name]
                if gpu is not None:
                    by_class.setdefault(gpu, []).append(node)
            made = tuple(pool_of(by_class[gpu], gpu) for gpu in sorted(by_class))
            found = self._pools[usable.names] = made
        if placement is None or placement.gpu is None:
            return found
        return tuple(pool for pool in found if pool.gpu and wanted_class(pool.gpu, placement))

    def node(self, name: str) -> NodeView:
        """The node of that name; `KeyError` if there is none."""
        return self._by_name[name]

    def of_product(self, product: str) -> tuple[NodeView, ...]:
        """Every node with GPUs of a product, usable or not."""
        classes = (gpu for gpu in self._by_class if gpu.product == product)
        return tuple(node for gpu in classes for node in self._by_class[gpu])

    def _classified(self) -> Iterator[tuple[str, GpuClass | None]]:
        """Each node with its class; nodes that say the same share the object."""
        known: dict[tuple[object, ...], tuple[GpuClass, list[NodeView]]] = {}
        for node in self.nodes:
            if not node.gpus:
                yield node.name, None
                continue
            says = (
                node.gpu_product,
                node.gpu_memory,
                node.compute,
                node.driver,
                node.architecture,
                node.share,
            )
            found = known.get(says) if node.compute else None
            if found is None:
                gpu = gpu_class(node)
                if gpu is None:
                    yield node.name, None
                    continue
                found = known[says] = gpu, self._by_class.setdefault(gpu, [])
            found[1].append(node)
            yield node.name, found[0]

    def _selected(self, selector: Selector) -> Iterable[NodeView]:
        """The nodes that carry these labels, by name."""
        if not selector:
            return self.nodes
        fewest = min((self._with_label(key, value) for key, value in selector), key=len)
        return (n for n in fewest if all(n.labels.get(k) == v for k, v in selector))

    def _with_label(self, key: str, value: str) -> Sequence[NodeView]:
        by_value = self._labelled.get(key)
        if by_value is None:
            by_value = self._labelled[key] = {}
            for node in self.nodes:
                if key in node.labels:
                    by_value.setdefault(node.labels[key], []).append(node)
        return by_value.get(value, ())

    def _by_taints(self, selector: Selector) -> Mapping[tuple[Taint, ...], list[NodeView]]:
        """The open nodes with these labels by their taints."""
        found = self._tainted.get(selector)
        if found is None:
            made: dict[tuple[Taint, ...], list[NodeView]] = {}
            for node in self._selected(selector):
                if node.ready and not node.unschedulable:
                    made.setdefault(node.taints, []).append(node)
            found = self._tainted[selector] = made
        return found

    def _tolerated(self, selector: Selector, taints: frozenset[tuple[Taint, ...]]) -> Pool:
        """The open nodes with these labels and any of these sets of taints."""
        found = self._admitted.get((selector, taints))
        if found is None:
            nodes = (node for each in taints for node in self._by_taints(selector)[each])
            made = pool_of(sorted(nodes, key=lambda node: node.name))
            # Names that are the same object are compared at once, equal ones one by one.
            found = self._admitted[selector, taints] = self._alike.setdefault(made.names, made)
        return found

    def _alike_nodes(self, selector: Selector) -> Iterator[Block]:
        found: dict[tuple[GpuClass, bool, bool, tuple[Taint, ...]], list[NodeView]] = {}
        for node in self._selected(selector):
            gpu = self.classes[node.name]
            if gpu is not None:
                state = gpu, node.ready, node.unschedulable, node.taints
                found.setdefault(state, []).append(node)
        for state, nodes in found.items():
            yield Block(*state, gpus=sum(node.gpus for node in nodes), first=nodes[0].name)


def fleet_of(nodes: Iterable[NodeView]) -> Fleet:
    """The fleet of these nodes."""
    return Fleet(nodes)


def selector_of(placement: Placement | None) -> Selector:
    """The labels that it asks of a node, sorted."""
    return tuple(sorted(placement.node_selector.items())) if placement is not None else ()
