"""The KV cache as vLLM lays it out, to the block.

Every group of layers with the same kind and shape of cache draws blocks from one pool. vLLM 0.33.0
(v1/core/kv_cache_planning.py) makes the pages of all groups equal, splits the groups to one size,
and gives each request blocks per group; this module computes the same numbers from an
architecture alone. Sizes are in bytes, windows and contexts in tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from kindling_operator.model.architecture import Architecture, AttentionGroup, AttentionKind
from kindling_operator.model.plan import EnginePlan, KVBudget
from kindling_operator.plan.stages import positions, stages

ELEMENT_BYTES = 2
"""Every model keeps its KV cache in bfloat16."""

POOL_ARGUMENT = "--kv-cache-memory-bytes"
"""Gives a GPU's pool in bytes; without it vLLM takes what its own profile run leaves over."""

NULL_BLOCKS = 1
"""Blocks of the pool that no request gets (vLLM 0.33.0, kv_cache_planning.py:1533-1559)."""


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that share block tables: `tables` of them, `block_tokens` tokens per block.

    `window` is None where every token is kept.
    """

    kind: AttentionKind
    window: int | None
    block_tokens: int
    tables: int


@dataclass(frozen=True, slots=True)
class KVLayout:
    """The pool of one rank: bytes of a block, and the groups that take blocks from it."""

    bytes_per_block: int
    groups: tuple[KVGroup, ...]

    def blocks_per_request(self, context: int, *, in_flight: int = 0, draft: int = 0) -> int:
        """Blocks that one request of `context` tokens takes.

        `in_flight` is the number of tokens that may be scheduled before the window moves on:
        with it this is what vLLM admits a request by, without it what a decoding request keeps.
        `draft` is the number of drafted tokens per step.
        """
        extra, blocks = max(0, draft - 1) + in_flight, 0
        for group in self.groups:
            blocks += group.tables * _blocks(group, context, extra)
        return blocks


@dataclass(frozen=True, slots=True)
class _Layers:
    """Layers of one cache shape: their indices, and the bytes of one block of one layer.

    `entry` is what a layer keeps of one token: heads, elements of a key, elements of a value.
    Prediction layers have the indices after the last layer of the model.
    """

    kind: AttentionKind
    window: int | None
    block_tokens: int
    entry: tuple[int, int, int]
    page: int
    indices: tuple[int, ...]


@lru_cache(maxsize=4096)
def kv_layout(
    architecture: Architecture,
    *,
    block_tokens: int,
    tensor_parallel: int = 1,
    pipeline: int = 1,
    draft: int = 0,
) -> KVLayout:
    """The pool of one rank of the fullest stage, where the engine's own block is `block_tokens`.

    The tables are made from the layers of all stages; a stage keeps its own layers of each
    (vLLM 0.33.0, v1/core/kv_cache_planning.py: get_kv_cache_configs).
    """
    shapes = _merged(
        _shape(group, indices, block_tokens=block_tokens, tensor_parallel=tensor_parallel)
        for group, indices in _drafted(architecture, draft, ordered=pipeline > 1)
    )
    bounds = _bounds(architecture, pipeline)
    if len({(s.kind, s.window, s.block_tokens) for s in shapes}) == 1:
        # One kind of cache: all layers share one block table, whatever their shapes.
        first = shapes[0]
        block = max(sum(s.page * _count(s.indices, stage) for s in shapes) for stage in bounds)
        group = KVGroup(first.kind, first.window, first.block_tokens, tables=1)
        return KVLayout(block, (group,))
    shapes = _merged(_unified(shapes))
    size = _group_size([len(shape.indices) for shape in shapes])
    tables = [ceil(len(shape.indices) / size) for shape in shapes]
    longest = size if pipeline == 1 else _longest(shapes, tables, bounds)
    groups = tuple(
        KVGroup(s.kind, s.window, s.block_tokens, tables=count)
        for s, count in zip(shapes, tables, strict=True)
    )
    return KVLayout(longest * shapes[0].page, groups)


def kv_budget(
    layout: KVLayout, *, pool_bytes: int, context: int, in_flight: int, draft: int = 0
) -> KVBudget:
    """What a pool holds, in the numbers that vLLM logs and exports.

    The division is in floating point on purpose: vLLM's is, and the digits shall agree.
    """
    blocks = pool_bytes // layout.bytes_per_block
    per_request = layout.blocks_per_request(context, in_flight=in_flight, draft=draft)
    requests = blocks / per_request
    return KVBudget(
        bytes=pool_bytes,
        blocks=blocks,
        blocks_per_request=per_request,
        tokens=int(requests * context),
        full_context_requests=f"{requests:.2f}",
    )


def pool_is_fixed(plan: EnginePlan) -> bool:
    """Whether the engine's pool has the planned size to the block, in every replica."""
    return plan.gpu is None or any(each.startswith(f"{POOL_ARGUMENT}=") for each in plan.argv)


def bytes_needed(layout: KVLayout, *, blocks_per_request: int, concurrency: int) -> int:
    """The smallest pool that holds `concurrency` requests at once."""
    return (concurrency * blocks_per_request + NULL_BLOCKS) * layout.bytes_per_block


def requests_at_once(budget: KVBudget) -> int:
    """Whole requests of full context that a pool holds, its null block left out."""
    return (budget.blocks - NULL_BLOCKS) // budget.blocks_per_request


def longest_context(
    layout: KVLayout, *, pool_bytes: int, at_most: int, concurrency: int, in_flight: int
) -> int:
    """The longest context of which `concurrency` requests fit at once; 0 if not even one token."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        per_request = layout.blocks_per_request(middle, in_flight=in_flight)
        needed = bytes_needed(layout, blocks_per_request=per_request, concurrency=concurrency)
        low, high = (middle, high) if needed <= pool_bytes else (low, middle - 1)
    return low


def _blocks(group: KVGroup, context: int, extra: int) -> int:
    if group.window is None:
        return ceil(context / group.block_tokens)
    reach = min(group.window - 1 + extra, context)
    return ceil(reach / group.block_tokens) + 1


def _bounds(architecture: Architecture, pipeline: int) -> list[range]:
    """Indices of each stage's layers; the last stage has the prediction layers too."""
    *others, last = stages(architecture.layers, pipeline)
    depths = architecture.draft.depths if architecture.draft is not None else 0
    return [*others, range(last.start, architecture.layers + depths)]


def _longest(shapes: list[_Layers], tables: list[int], bounds: list[range]) -> int:
    """The most layers of one table on one stage.

    Tables take the layers of a shape in turn, so that each has its share of every stage.
    """
    return max(
        _count(shape.indices[table::count], stage)
        for shape, count in zip(shapes, tables, strict=True)
        for table in range(count)
        for stage in bounds
    )


def _count(indices: Iterable[int], stage: range) -> int:
    return sum(1 for index in indices if index in stage)


def _drafted(
    architecture: Architecture, draft: int, *, ordered: bool
) -> Iterator[tuple[AttentionGroup, tuple[int, ...]]]:
    """Each group with its layers, prediction layers included (as many as tokens are drafted).

    Not `ordered`, the layers are only as many as they are: one stage has them all.
    """
    heads = architecture.draft
    where = positions(architecture) if ordered else {}
    depths = range(min(heads.depths, draft)) if heads is not None else range(0)
    for group in architecture.attention:
        more = tuple(
            architecture.layers + depth
            for depth in depths
            if heads is not None and group.name in (heads.group_of(depth), heads.conv_group)
        )
        yield group, where.get(group.name, tuple(range(group.layers))) + more


def _shape(
    group: AttentionGroup, indices: tuple[int, ...], *, block_tokens: int, tensor_parallel: int
) -> _Layers:
    value = group.head_size if group.head_size_value is None else group.head_size_value
    # A rank never holds less than one head: beyond the number of heads they are replicated.
    heads = max(1, group.kv_heads // tensor_parallel)
    tokens = group.block_tokens or block_tokens
    page = tokens * heads * (group.head_size + value) * ELEMENT_BYTES
    return _Layers(
        kind=group.kind,
        window=group.window,
        block_tokens=tokens,
        entry=(heads, group.head_size, value),
        page=page,
        indices=indices,
    )


def _merged(shapes: Iterable[_Layers]) -> list[_Layers]:
    """Equal shapes as one, in the order of their first appearance."""
    found: dict[_Layers, _Layers] = {}
    for shape in shapes:
        key = replace(shape, indices=())
        indices = sorted(shape.indices + found.get(key, key).indices)
        found[key] = replace(shape, indices=tuple(indices))
    return list(found.values())


def _unified(shapes: list[_Layers]) -> Iterable[_Layers]:
    """All pages as large as the largest: by longer blocks where that divides, else by padding."""
    largest = max(shape.page for shape in shapes)
    for shape in shapes:
        ratio = largest // shape.page if largest % shape.page == 0 else 1
        yield replace(shape, page=largest, block_tokens=shape.block_tokens * ratio)


def _group_size(layers: list[int]) -> int:
    """Layers per block table: the fewest of any shape, or the most if that pads little.

    vLLM's heuristic (v1/core/kv_cache_planning.py:481-556).
    """
    fewest, most = min(layers), max(layers)
    return most if most < 1.5 * fewest else fewest
