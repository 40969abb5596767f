"""The KV cache tier in host memory: how large, in which chunks, and which ends are kept.

vLLM 0.33.0 stores a prompt in chunks of whole blocks. Behind a sliding window it keeps only the
last blocks before a boundary, and a lookup asks for a window's worth of chunks in a row: with the
wrong chunk it asks for one more than was ever kept (trap T29), and without boundaries along the way
neither drafting (T30) nor another prompt with the same beginning (T31) finds any.
Measured: hits of Flint with chunks of 24 and 48 blocks, of Inkling with 1 to 16; none of Flint with
1, 2, 4, 8, 16 and 32 (one H200).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, lcm

from kindling_operator.model.architecture import Device
from kindling_operator.model.plan import HostTierPlan
from kindling_operator.model.quantities import format_bytes
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.kv import KVGroup, KVLayout, kv_layout
from kindling_operator.plan.memory import GIB, MIB

_CHUNKS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)
"""Blocks per chunk that are considered, the smallest first."""
_LEAST_CHUNK = 4 * MIB
"""Below this a copy is mostly overhead (chunks of 5.5 MiB restored Inkling well, one H200)."""
_MOST_CHUNK_TOKENS = 384
"""A hit ends at a whole chunk, so a coarser one computes more of the prompt again."""
_PROMPT_TOKENS_PER_END = 3
"""Kept tokens for each token's worth of kept end: the ends add a third to the volume."""
_SHARE = 2
"""Half of the memory that a pod's share of a node leaves over is for the tier."""
_POOLS = 4
"""More than so many times the GPUs' own cache has not been worth a pinned page to anybody yet."""


def kv_layout_of(candidate: Candidate) -> KVLayout:
    """The KV cache of one rank of the fullest stage."""
    return kv_layout(
        candidate.subject.architecture,
        block_tokens=runtime_for(candidate.subject, Device.GPU).block_tokens,
        tensor_parallel=candidate.layout.tensor,
        pipeline=candidate.layout.pipeline,
        draft=candidate.draft,
    )


def host_tier(layout: KVLayout, *, size: int, tensor: int, draft: int) -> HostTierPlan:
    """The tier of `size` bytes for an engine whose ranks have this `layout`.

    `tensor` ranks share a chunk; `draft` is the number of drafted tokens per step.
    """
    blocks = chunk_blocks(layout, tensor=tensor)
    retention = retention_tokens(layout, blocks=blocks, draft=draft)
    return HostTierPlan(
        bytes=size,
        chunk_blocks=blocks,
        retention_tokens=retention,
        why=_why(layout, blocks=blocks, retention=retention, tensor=tensor, draft=draft),
    )


def default_tier_bytes(*, left: int, pool: int) -> int:
    """The tier that nobody asked a size for, in whole GiB; 0 where it would be less than one.

    `left` is what the pod's share of its node's memory leaves over, `pool` the KV cache of the
    pod's GPUs together, both in bytes.
    """
    return max(0, min(left // _SHARE, _POOLS * pool)) // GIB * GIB


def least_tier_bytes(layout: KVLayout, *, tensor: int) -> int:
    """Room for one chunk of each table and one kept end, below which nothing is ever found."""
    blocks = chunk_blocks(layout, tensor=tensor)
    tables = sum(group.tables for group in layout.groups)
    return (tables * blocks + _end_blocks(layout)) * layout.bytes_per_block * tensor


def chunk_blocks(layout: KVLayout, *, tensor: int) -> int:
    """vLLM's blocks_per_chunk: large enough to copy well, and found again by every window."""
    fit = tuple(blocks for blocks in _CHUNKS if not any(_lost(layout, blocks)))
    longest = max(group.block_tokens for group in layout.groups)
    for blocks in fit:
        size = blocks * layout.bytes_per_block * tensor
        if size >= _LEAST_CHUNK or blocks * longest >= _MOST_CHUNK_TOKENS:
            return blocks
    return fit[-1]


def retention_tokens(layout: KVLayout, *, blocks: int, draft: int) -> int:
    """vLLM's prefix_cache_retention_interval: a multiple of every chunk (trap T15), 0 for none.

    Without windows every boundary is kept anyway. With drafting a hit ends at such a boundary, so
    that up to an interval is computed again: it is half as long then.
    """
    ends = _end_blocks(layout)
    if not ends:
        return 0
    per_token = sum(g.tables / g.block_tokens for g in layout.groups if g.window is None)
    wanted = _PROMPT_TOKENS_PER_END * ends / per_token if per_token else 0
    step = lcm(*(group.block_tokens * blocks for group in layout.groups))
    return max(1, ceil(wanted / (2 if draft else 1) / step)) * step


def _lost(layout: KVLayout, blocks: int) -> Iterator[KVGroup]:
    """Groups whose lookup asks for more chunks than are kept before a boundary (trap T29).

    vLLM 0.33.0, distributed/kv_transfer/kv_connector/v1/offloading/config.py:61-72 against
    v1/core/single_type_kv_cache_manager.py (reachable_block_mask).
    """
    for group in layout.groups:
        if group.window is None:
            continue
        chunk = blocks * group.block_tokens
        kept = ceil((group.window - 1) / group.block_tokens) * group.block_tokens
        if ceil(group.window / chunk) > ceil(kept / chunk):
            yield group


def _end_blocks(layout: KVLayout) -> int:
    """Blocks that one boundary keeps of all windows together."""
    return sum(
        group.tables * ceil((group.window - 1) / group.block_tokens)
        for group in layout.groups
        if group.window is not None
    )


def _why(layout: KVLayout, *, blocks: int, retention: int, tensor: int, draft: int) -> str:
    """The choice in one sentence."""
    size = format_bytes(blocks * layout.bytes_per_block * tensor)
    parts = [f"Chunks of {blocks} blocks, {size}"]
    lost = next((b for b in reversed(_CHUNKS) if b < blocks and any(_lost(layout, b))), None)
    if lost is not None:
        window = next(_lost(layout, lost)).window
        parts.append(f"as chunks of {lost} are never found again behind a window of {window}")
    if retention:
        end = format_bytes(_end_blocks(layout) * layout.bytes_per_block * tensor)
        reason = "drafting finds no other" if draft else "prompts with one beginning share it"
        parts.append(f"and an end of {end} kept every {retention} tokens, because {reason}")
    return f"{', '.join(parts)}."
