"""Pieces of a KV cache: the best ones of the measured table, and the ends of the rule."""

import pytest

from kindling_runtime.plugins.split_policy import split_count

MILLION = 1 << 20


# One H200, vLLM 0.33.0: heads, KV heads, requests, query tokens and longest context; of the counts
# 1, 8, 16, 32, 64 and 128 those that took at most a tenth more than the fastest.
MEASURED = [
    ((64, 8, 1, 1, 8_192), {16}),
    ((64, 8, 1, 1, 100_000), {16, 32}),
    ((32, 4, 1, 1, 100_000), {32}),
    ((16, 2, 1, 1, 100_000), {64, 128}),
    ((8, 1, 1, 1, 8_192), {64, 128}),
    ((8, 1, 1, 1, 100_000), {128}),
    ((8, 1, 1, 2, 100_000), {128}),
    ((8, 1, 1, 5, 100_000), {128}),
    ((8, 1, 1, 1, 1_000_000), {128}),
    ((8, 1, 8, 1, 100_000), {16, 32}),
]


@pytest.mark.parametrize(("shape", "fast"), MEASURED)
def test_a_decoding_request_gets_what_was_fastest(
    shape: tuple[int, int, int, int, int], fast: set[int]
) -> None:
    heads, kv, batch, query, keys = shape

    assert split_count(batch=batch, query=query, heads=heads, kv_heads=kv, keys=keys) in fast


@pytest.mark.parametrize(
    ("heads", "kv", "batch"), [(8, 1, 32), (64, 8, 4), (8, 1, 64), (64, 8, 64)]
)
def test_many_requests_are_still_cut_a_little(heads: int, kv: int, batch: int) -> None:
    """From 32 blocks on, 4 to 8 pieces: the table has 8 as the best of 1, 8, 16, ..."""
    assert split_count(batch=batch, query=1, heads=heads, kv_heads=kv, keys=MILLION) == 4


def test_a_short_context_is_not_cut_below_what_a_block_reads_at_once() -> None:
    counts = [
        split_count(batch=1, query=1, heads=8, kv_heads=1, keys=keys)
        for keys in (1, 128, 129, 1_024, 8_192, MILLION)
    ]

    assert counts == [1, 1, 2, 8, 64, 128]


def test_a_prompt_that_fills_the_chip_by_itself_stays_whole() -> None:
    counts = [
        split_count(batch=1, query=query, heads=8, kv_heads=1, keys=MILLION)
        for query in (16, 32, 64, 512, 1_024, 2_048, 8_192)
    ]

    assert counts == [128, 64, 32, 4, 2, 1, 1]


def test_a_large_batch_with_drafts_on_one_rank_keeps_its_partial_results_in_bounds() -> None:
    """256 requests of 8 tokens (MTP 4, rounded up) and 64 heads: 4 pieces would be 268 MB."""
    assert split_count(batch=256, query=8, heads=64, kv_heads=8, keys=MILLION) == 1
    assert split_count(batch=64, query=8, heads=64, kv_heads=8, keys=MILLION) == 4
