"""The tier in host memory: chunks that are found again, and ends that are kept along the way.

The lengths that hit and miss are those of runs of vLLM 0.33.0 on one H200.
"""

from math import lcm
from typing import Final

import pytest

from kindling_operator import catalog
from kindling_operator.plan import offload
from kindling_operator.plan.kv import KVLayout, kv_layout
from kindling_operator.plan.offload import default_tier_bytes, host_tier, least_tier_bytes

GIB: Final = 1 << 30
MIB: Final = 1 << 20


def layout(name: str, *, tensor: int = 1, draft: int = 0) -> KVLayout:
    architecture = catalog.load(name).architecture
    return kv_layout(architecture, block_tokens=16, tensor_parallel=tensor, draft=draft)


def lost(found: KVLayout) -> set[int]:
    """Blocks per chunk with which a prompt is never found again, up to 64."""
    return {blocks for blocks in range(1, 65) if any(offload._lost(found, blocks))}


def test_t29_flint_is_lost_with_chunks_that_divide_its_window() -> None:
    assert lost(layout("flint")) == {1, 2, 4, 8, 16, 32}


@pytest.mark.parametrize("draft", [0, 1, 4, 8])
def test_inkling_is_found_with_every_chunk(draft: int) -> None:
    assert lost(layout("inkling", draft=draft)) == set()


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_flint_gets_chunks_that_were_measured_to_hit(tensor: int) -> None:
    tier = host_tier(layout("flint", tensor=tensor), size=64 * GIB, tensor=tensor, draft=0)

    assert (tier.chunk_blocks, tier.retention_tokens, tier.bytes) == (24, 4608, 64 * GIB)


@pytest.mark.parametrize(
    ("name", "tensor", "draft"),
    [("flint", 1, 0), ("inkling", 1, 0), ("inkling", 8, 0), ("inkling", 8, 1), ("inkling", 8, 8)],
)
def test_t15_the_interval_is_a_multiple_of_every_chunk(name: str, tensor: int, draft: int) -> None:
    found = layout(name, tensor=tensor, draft=draft)
    tier = host_tier(found, size=GIB, tensor=tensor, draft=draft)

    assert tier.retention_tokens > 0
    assert tier.retention_tokens % lcm(*(g.block_tokens for g in found.groups)) == 0
    for group in found.groups:
        assert tier.retention_tokens % (group.block_tokens * tier.chunk_blocks) == 0


def test_t31_ends_add_a_third_to_the_volume() -> None:
    """28 KiB a token and 42 MiB an end for Flint; 44 KiB and 228 MiB for Inkling."""
    flint = host_tier(layout("flint"), size=GIB, tensor=1, draft=0)
    inkling = host_tier(layout("inkling"), size=GIB, tensor=1, draft=0)

    assert 42 * MIB / (flint.retention_tokens * 28 * 1024) == pytest.approx(1 / 3, rel=0.01)
    assert 228.25 * MIB / (inkling.retention_tokens * 44 * 1024) == pytest.approx(1 / 3, rel=0.01)


def test_t30_with_drafts_an_interval_is_half_as_long() -> None:
    """A hit ends at one, so up to an interval is computed again."""
    tier = host_tier(layout("inkling", tensor=8, draft=4), size=GIB, tensor=8, draft=4)

    assert tier.retention_tokens == 8064
    assert tier.why == (
        "Chunks of 4 blocks, 6.5 MiB, and an end of 269.8 MiB kept every 8064 tokens, because"
        " drafting finds no other."
    )


def test_the_choice_is_told() -> None:
    assert host_tier(layout("flint"), size=GIB, tensor=1, draft=0).why == (
        "Chunks of 24 blocks, 10.5 MiB, as chunks of 16 are never found again behind a window of"
        " 513, and an end of 42.0 MiB kept every 4608 tokens, because prompts with one beginning"
        " share it."
    )


def test_without_windows_nothing_is_kept_on_purpose() -> None:
    full = KVLayout(458_752, tuple(g for g in layout("flint").groups if g.window is None))
    tier = host_tier(full, size=GIB, tensor=1, draft=0)

    assert (tier.chunk_blocks, tier.retention_tokens) == (16, 0)
    assert tier.why == "Chunks of 16 blocks, 7.0 MiB."


def test_small_pages_do_not_make_coarse_hits() -> None:
    tiny = KVLayout(4096, layout("flint").groups)

    assert host_tier(tiny, size=GIB, tensor=1, draft=0).chunk_blocks == 24


def test_the_least_tier_holds_a_chunk_of_each_table_and_one_end() -> None:
    assert least_tier_bytes(layout("flint"), tensor=1) == (4 * 24 + 96) * 448 * 1024


@pytest.mark.parametrize(
    ("left", "pool", "size"),
    [
        (100 * GIB, 50 * GIB, 50 * GIB),
        (100 * GIB, 5 * GIB, 20 * GIB),
        (3 * GIB - 1, 50 * GIB, GIB),
        (GIB, 50 * GIB, 0),
        (-GIB, 50 * GIB, 0),
    ],
)
def test_the_tier_that_nobody_asked_for(left: int, pool: int, size: int) -> None:
    assert default_tier_bytes(left=left, pool=pool) == size
