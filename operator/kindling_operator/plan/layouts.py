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
from functools import lru_cache
from itertools import islice, product

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
    return _layouts(subject.architecture, pins_of(subject), most_gpus(subject), extent)


@lru_cache(maxsize=1024)
def _layouts(
    architecture: Architecture, pins: Parallelism, most: int | None, extent: Extent
) -> tuple[Layout, ...]:
    found = {
        spread
        for sizes in _sizes(architecture, pins, extent)
        if most is None or sizes.gpus <= most
        for spread in _spread(sizes, extent)
    }
    return tuple(sorted(found, key=_order))


def _sizes(architecture: Architecture, pins: Parallelism, extent: Extent) -> Iterator[Layout]:
    """Sizes to consider, without a number of nodes; each pin has one value."""
    reach = 0
    for pipeline, data in _stages_and_ranks(architecture, pins):
        sizes = _with_tensors(architecture, pins, pipeline=pipeline, data=data)
        if pipeline == data == 1:
            reach = _reach(sizes, extent)
            yield from sizes
        elif pipeline in (1, pins.pipeline) and data in (1, pins.data):
            yield from sizes
        else:
            yield from _widest((each for each in sizes if each.gpus > reach), extent)


def _stages_and_ranks(architecture: Architecture, pins: Parallelism) -> Iterator[tuple[int, int]]:
    """Stages and data ranks, one of each first; several of both only where both are pinned."""
    sparse = architecture.experts is not None
    stages = (pins.pipeline,) if pins.pipeline else (1, *STAGES)
    ranks = (pins.data,) if pins.data else (1, *(DATA_RANKS if sparse else ()))
    for pipeline, data in product(stages, ranks):
        both = pipeline > 1 and data > 1
        if pipeline <= architecture.layers and (not both or (pins.pipeline and pins.data)):
            yield pipeline, data


def _with_tensors(
    architecture: Architecture, pins: Parallelism, *, pipeline: int, data: int
) -> tuple[Layout, ...]:
    """These stages and data ranks with each tensor size."""
    chosen = data > 1 and architecture.experts is not None
    expert = chosen if pins.expert is None else pins.expert
    tensors = (pins.tensor,) if pins.tensor else tensor_sizes(architecture)
    return tuple(Layout(tensor, pipeline, data, expert) for tensor in tensors)


def _reach(plain: Iterable[Layout], extent: Extent) -> int:
    """The most GPUs that tensor parallelism alone can use."""
    placed = (each.gpus for each in plain if any(_spread(each, extent)))
    return max(placed, default=0)


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
