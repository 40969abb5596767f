"""Ways to spread one replica over the GPUs of a class, fewest GPUs first.

Tensor parallelism stays inside a node, or inside one NVLink domain where nodes share one. Beyond
that, pipeline stages are put on nodes of their own (vLLM drafts nothing then), or, in a mixture of
experts, data-parallel ranks share the experts. Experts are spread only with data parallelism: on
one rank of it cutting them takes the same memory, and leaves Flint its own kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from kindling_operator.model.api_placement import Parallelism
from kindling_operator.model.architecture import Architecture
from kindling_operator.model.layout import Layout
from kindling_operator.plan.fleet import Pool
from kindling_operator.plan.pins import most_gpus, pins_of
from kindling_operator.plan.rules.parallelism import tensor_sizes
from kindling_operator.plan.subject import Subject

STAGES = (2, 3, 4, 6, 8, 12, 16)
"""Pipeline stages that are considered."""
DATA_RANKS = (2, 4, 8, 16, 32)
"""Data-parallel ranks that are considered."""
MOST_NODES = 16
"""Nodes of one replica: beyond that a fault of any of them is too likely, and nobody has tried."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The GPUs of a class by node: sizes of nodes with their numbers, largest first.

    `domains` has the sizes of the nodes of each NVLink domain that spans several, once for all
    domains that are alike. `spare` nodes more like the largest are imagined.
    """

    sizes: tuple[tuple[int, int], ...]
    domains: frozenset[tuple[tuple[int, int], ...]] = frozenset()
    spare: int = 0

    @property
    def largest(self) -> int:
        """GPUs of the largest node."""
        return self.sizes[0][0] if self.sizes else 0

    def nodes_with(self, gpus: int) -> int:
        """Nodes that have at least so many GPUs."""
        return _at_least(self.sizes, gpus) + (self.spare if gpus <= self.largest else 0)

    def clique_with(self, gpus: int) -> int:
        """The most nodes of one NVLink domain that have at least so many GPUs each."""
        return max((_at_least(sizes, gpus) for sizes in self.domains), default=0)


def extent_of(pool: Pool) -> Extent:
    """The GPUs of a pool."""
    domains: dict[str, list[int]] = {}
    for node in pool.nodes:
        if node.clique:
            domains.setdefault(node.clique, []).append(node.gpus)
    return Extent(
        _counted(node.gpus for node in pool.nodes),
        frozenset(_counted(gpus) for gpus in domains.values()),
    )


def _counted(gpus: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(gpus).items(), reverse=True))


def _at_least(sizes: Iterable[tuple[int, int]], gpus: int) -> int:
    return sum(count for size, count in sizes if size >= gpus)


def layouts(subject: Subject, extent: Extent) -> tuple[Layout, ...]:
    """What the spec's pins and the nodes allow, by GPUs, data ranks, stages and nodes.

    Whether the model runs that way and fits is judged elsewhere.
    """
    most = most_gpus(subject)
    found = {
        spread
        for sizes in _sizes(subject, extent)
        if most is None or sizes.gpus <= most
        for spread in _spread(sizes, extent)
    }
    return tuple(sorted(found, key=_order))


def _sizes(subject: Subject, extent: Extent) -> Iterator[Layout]:
    """Sizes to consider, without a number of nodes; each pin has one value."""
    pins, architecture = pins_of(subject), subject.architecture
    tensors = (pins.tensor,) if pins.tensor else tensor_sizes(architecture)
    plain = tuple(_sized(architecture, pins, tensor=tensor) for tensor in tensors)
    if not (pins.pipeline or pins.data):
        yield from plain
    reach = 0 if pins.pipeline or pins.data else _reach(plain, extent)
    for pipeline, data in _beyond_tensors(architecture, pins):
        if pipeline > architecture.layers:
            continue
        sizes = (
            _sized(architecture, pins, tensor=tensor, pipeline=pipeline, data=data)
            for tensor in tensors
        )
        yield from _widest((each for each in sizes if each.gpus > reach), extent)


def _sized(
    architecture: Architecture, pins: Parallelism, *, tensor: int, pipeline: int = 1, data: int = 1
) -> Layout:
    chosen = data > 1 and architecture.experts is not None
    return Layout(tensor, pipeline, data, chosen if pins.expert is None else pins.expert)


def _reach(plain: Iterable[Layout], extent: Extent) -> int:
    """The most GPUs that tensor parallelism alone can use."""
    placed = (each.gpus for each in plain if any(_spread(each, extent)))
    return max(placed, default=0)


def _beyond_tensors(architecture: Architecture, pins: Parallelism) -> Iterator[tuple[int, int]]:
    """Stages and data ranks to combine with tensor ranks; both only where both are pinned."""
    if pins.pipeline and pins.data:
        yield pins.pipeline, pins.data
    elif pins.pipeline:
        yield pins.pipeline, 1
    elif pins.data:
        yield 1, pins.data
    else:
        yield from ((pipeline, 1) for pipeline in STAGES)
        shared = architecture.experts is not None
        yield from ((1, data) for data in DATA_RANKS if shared)


def _widest(sizes: Iterable[Layout], extent: Extent) -> Iterator[Layout]:
    """The two widest sizes that there are nodes for: a narrower one holds more copies and is
    slower."""
    wide = sorted(sizes, key=lambda each: -each.tensor)
    placed = (each for each in wide if any(_spread(each, extent)))
    yield from islice(placed, 2)


def _spread(sizes: Layout, extent: Extent) -> Iterator[Layout]:
    """The sizes on the fewest nodes that can take them, if any can."""
    for nodes in range(1, min(sizes.gpus, MOST_NODES) + 1):
        if sizes.gpus % nodes:
            continue
        layout = replace(sizes, nodes=nodes)
        if _has_nodes(layout, extent):
            yield layout
            return


def _has_nodes(layout: Layout, extent: Extent) -> bool:
    each = layout.gpus_per_node
    if layout.tensor_spans_nodes:
        # A group of tensor ranks that is not alone in its nodes has no domain to itself.
        alone = layout.pipeline == 1 and layout.data == 1
        return alone and extent.clique_with(each) >= layout.nodes
    if each % layout.tensor:
        return False
    return extent.nodes_with(each) >= layout.nodes


def _order(layout: Layout) -> tuple[int, int, int, int, int]:
    return layout.gpus, layout.data, layout.pipeline, layout.nodes, -layout.tensor
