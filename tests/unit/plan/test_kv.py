"""The KV arithmetic against what vLLM logged, line by line, and against its documented tables."""

import msgspec
import pytest
from tests.support.builders import GIB, tiny_architecture

from kindling_operator import catalog
from kindling_operator.model.architecture import Architecture
from kindling_operator.plan.kv import (
    NULL_BLOCKS,
    KVLayout,
    bytes_needed,
    kv_budget,
    kv_layout,
    longest_context,
    requests_at_once,
)

FLINT = catalog.load("flint").architecture
INKLING = catalog.load("inkling").architecture


def all_full(architecture: Architecture) -> Architecture:
    """With prediction layers of full attention, as the runs and tables here assume; the published
    config has six sliding ones among eight."""
    assert architecture.draft is not None
    draft = msgspec.structs.replace(
        architecture.draft, attention_group="full_attention", attention_groups=None
    )
    return msgspec.structs.replace(architecture, draft=draft)


INKLING_ALL_FULL = all_full(INKLING)


def cpu_model(*groups: tuple[str, int, int, int | None]) -> Architecture:
    """Groups of (kind, layers, KV heads, window) with heads of 64, as the tiny models have."""
    attention = [
        {
            "name": f"group_{place}",
            "kind": kind,
            "layers": layers,
            "kvHeads": heads,
            "headSize": 64,
            **({"window": window} if window else {}),
        }
        for place, (kind, layers, heads, window) in enumerate(groups)
    ]
    layers = sum(group[1] for group in groups)
    return msgspec.convert(tiny_architecture(layers=layers, attention=attention), Architecture)


QWEN3 = cpu_model(("Full", 4, 2, None))
GEMMA3 = cpu_model(("Sliding", 5, 1, 512), ("Full", 1, 1, None))
GEMMA3_SSSFF = cpu_model(("Sliding", 3, 1, 512), ("Full", 2, 1, None))
GPT_OSS = cpu_model(("Sliding", 2, 2, 128), ("Full", 2, 2, None))

# vLLM 0.32.0 on CPU, 1 GiB of KV cache: logged "KV cache size" and "Maximum concurrency".
CPU_LOGS = {
    "qwen3, all layers alike": (QWEN3, 2048, 2048, 524_288, "256.00"),
    "qwen3-moe, experts keep no KV cache": (QWEN3, 2048, 2048, 524_288, "256.00"),
    "gemma3, one batch covers the context": (GEMMA3, 2048, 2048, 664_444, "324.44"),
    "gemma3, windows matter": (GEMMA3, 4096, 512, 1_743_087, "425.56"),
    "gemma3 of 3 sliding and 2 full, padded": (GEMMA3_SSSFF, 4096, 1024, 1_157_049, "282.48"),
    "gpt-oss, equal counts": (GPT_OSS, 2048, 2048, 508_400, "248.24"),
}


@pytest.mark.parametrize("case", CPU_LOGS.values(), ids=CPU_LOGS.keys())
def test_cpu_logs_are_reproduced_to_the_digit(
    case: tuple[Architecture, int, int, int, str],
) -> None:
    architecture, context, batched, tokens, concurrency = case
    layout = kv_layout(architecture, block_tokens=128)

    budget = kv_budget(layout, pool_bytes=GIB, context=context, in_flight=batched)

    assert (budget.tokens, budget.full_context_requests) == (tokens, concurrency)


def inkling_cut(full: int, sliding: int) -> Architecture:
    """Inkling's layers, fewer of them, as the runs had them."""
    counts = {"full_attention": full, "sliding_window": sliding, "short_conv": full + sliding}
    attention = tuple(
        msgspec.structs.replace(group, layers=counts[group.name], positions=None)
        for group in INKLING.attention
    )
    return msgspec.structs.replace(INKLING_ALL_FULL, layers=full + sliding, attention=attention)


# A cut of 12 layers on one H200, vLLM 0.33.0: draft, context, batch, KV bytes; then what it logged.
INKLING_LOGS = {
    "whole card": (0, 131_072, 2048, 113_062_707_200, 431_300, 11_697, 4_832_978, "36.87"),
    "long batches": (0, 131_072, 8192, 16 * GIB, 65_536, 33_969, 252_875, "1.93"),
    "twice the context": (0, 262_144, 2048, 6 * GIB, 24_576, 15_793, 407_930, "1.56"),
    "a million tokens": (0, 1_048_576, 8192, 33 * GIB // 2, 67_584, 62_641, 1_131_319, "1.08"),
    "towers on": (0, 16_384, 4096, 8 * GIB, 32_768, 15_537, 34_554, "2.11"),
    "one draft token": (1, 262_144, 2048, 12 * GIB, 32_768, 14_478, 593_309, "2.26"),
    "four draft tokens": (4, 131_072, 8192, 15 * GIB, 20_480, 18_509, 145_029, "1.11"),
}


@pytest.mark.parametrize("case", INKLING_LOGS.values(), ids=INKLING_LOGS.keys())
def test_inkling_logs_are_reproduced_to_the_digit(
    case: tuple[int, int, int, int, int, int, int, str],
) -> None:
    draft, context, batched, pool, *logged = case
    layout = kv_layout(inkling_cut(2, 10), block_tokens=16, draft=draft)

    budget = kv_budget(layout, pool_bytes=pool, context=context, in_flight=2 * batched, draft=draft)

    found = [budget.blocks, budget.blocks_per_request, budget.tokens, budget.full_context_requests]
    assert found == logged


# vLLM 0.33.0 on H200s, batches of 8,192: ranks, context, GiB of one GPU's pool; what it logged.
FLINT_LOGS = {
    "BF16": (1, 102_048, 50.33, 1_258_944, "12.34"),
    "BF16, started as a server": (1, 131_072, 53.11, 1_433_913, "10.94"),
    "NVFP4": (1, 131_072, 102.85, 2_776_804, "21.19"),
    "BF16 on two GPUs": (2, 131_072, 89.0, 4_805_934, "36.67"),
}


@pytest.mark.parametrize("case", FLINT_LOGS.values(), ids=FLINT_LOGS.keys())
def test_flint_logs_are_reproduced_for_a_pool_that_rounds_to_the_logged_one(
    case: tuple[int, int, float, int, str],
) -> None:
    ranks, context, gib, tokens, concurrency = case
    layout = kv_layout(FLINT, block_tokens=16, tensor_parallel=ranks)

    assert (tokens, concurrency) in _logged_by(layout, gib, context=context, in_flight=16_384)


# A cut of Inkling of 12 layers on two H200, vLLM 0.33.0, tensor parallel, batch, draft.
INKLING_PAIR_LOGS = {
    "no draft": (8192, 0, 113.98, 3_602_845, "27.49"),
    "four draft tokens": (4096, 4, 112.17, 3_539_891, "27.01"),
}


@pytest.mark.parametrize("case", INKLING_PAIR_LOGS.values(), ids=INKLING_PAIR_LOGS.keys())
def test_inkling_logs_of_two_tensor_parallel_ranks(
    case: tuple[int, int, float, int, str],
) -> None:
    batched, draft, gib, tokens, concurrency = case
    layout = kv_layout(inkling_cut(2, 10), block_tokens=16, tensor_parallel=2, draft=draft)

    found = _logged_by(layout, gib, context=131_072, in_flight=2 * batched, draft=draft)

    assert (tokens, concurrency) in found


def _logged_by(
    layout: KVLayout, gib: float, *, context: int, in_flight: int, draft: int = 0
) -> set[tuple[int, str]]:
    """What every pool would log that rounds to these GiB."""
    low, high = (round((gib + step) * GIB) for step in (-0.005, 0.005))
    budgets = (
        kv_budget(layout, pool_bytes=pool, context=context, in_flight=in_flight, draft=draft)
        for pool in range(low, high, layout.bytes_per_block)
    )
    return {(budget.tokens, budget.full_context_requests) for budget in budgets}


def shown(value: float, printed: str) -> str:
    """A number with as many decimals as the printed one."""
    return f"{value:.{len(printed.partition('.')[2])}f}"


# Context, batch; blocks to admit a request, GiB of them, GiB of a decoding request; then requests
# in 20, 60 and 100 GiB. As it was noted down, but for one cell, which was rounded twice: 44.85 had
# become 44.9 (it is 44.847).
FLINT_TABLE = [
    (32_768, 2048, 2_915, "1.245", "0.917", ("16.1", "48.2", "80.3")),
    (32_768, 8192, 5_219, "2.230", "0.917", ("8.97", "26.9", "44.8")),
    (131_072, 2048, 9_059, "3.870", "3.542", ("5.17", "15.5", "25.8")),
    (131_072, 8192, 11_363, "4.855", "3.542", ("4.12", "12.4", "20.6")),
    (262_144, 2048, 17_251, "7.370", "7.042", ("2.71", "8.14", "13.6")),
    (262_144, 8192, 19_555, "8.355", "7.042", ("2.39", "7.18", "11.97")),
    (262_144, 16_384, 22_627, "9.667", "7.042", ("2.07", "6.21", "10.3")),
]


@pytest.mark.parametrize("row", FLINT_TABLE, ids=str)
def test_flint_table(row: tuple[int, int, int, str, str, tuple[str, str, str]]) -> None:
    context, batched, blocks, admission, steady, requests = row
    layout = kv_layout(FLINT, block_tokens=16)
    admitted = layout.blocks_per_request(context, in_flight=2 * batched)
    kept = layout.blocks_per_request(context)

    assert (layout.bytes_per_block, admitted) == (458_752, blocks)
    assert shown(admitted * 458_752 / GIB, admission) == admission
    assert shown(kept * 458_752 / GIB, steady) == steady
    for gib, printed in zip((20, 60, 100), requests, strict=True):
        assert shown(gib * GIB // 458_752 / admitted, printed) == printed


def test_flint_blocks_of_whole_pools() -> None:
    layout = kv_layout(FLINT, block_tokens=16)

    found = [gib * GIB // layout.bytes_per_block for gib in (20, 60, 100, 130)]

    assert found == [46_811, 140_434, 234_057, 304_274]


@pytest.mark.parametrize(("ranks", "share"), [(2, 2), (4, 4), (8, 4)])
def test_flint_has_four_heads_to_divide(ranks: int, share: int) -> None:
    layout = kv_layout(FLINT, block_tokens=16, tensor_parallel=ranks)

    assert layout.bytes_per_block == 458_752 // share


@pytest.mark.parametrize(
    ("draft", "groups", "bytes_per_block"),
    [(0, 12, 1_441_792), (1, 12, 1_572_864), (3, 10, 1_835_008), (8, 8, 2_490_368)],
)
def test_inkling_groups(draft: int, groups: int, bytes_per_block: int) -> None:
    layout = kv_layout(INKLING_ALL_FULL, block_tokens=16, draft=draft)
    eighth = kv_layout(INKLING_ALL_FULL, block_tokens=16, draft=draft, tensor_parallel=8)

    assert sum(group.tables for group in layout.groups) == groups
    assert layout.bytes_per_block == bytes_per_block
    assert eighth.bytes_per_block == bytes_per_block // 8
    assert {g.block_tokens for g in layout.groups} == {32, 16, 4}


# TP8, GiB per request: to admit it and while it decodes, for 0, 1, 3 and 8 draft tokens.
INKLING_TABLE = {
    (131_072, 2048): ["1.963 0.717", "2.142 0.782", "2.220 0.907", "2.632 1.222"],
    (131_072, 8192): ["5.702 0.717", "6.220 0.782", "6.157 0.907", "6.862 1.222"],
    (262_144, 2048): ["2.651 1.405", "2.892 1.532", "3.095 1.782", "3.819 2.409"],
    (262_144, 8192): ["6.389 1.405", "6.970 1.532", "7.032 1.782", "8.050 2.409"],
    (1_048_576, 2048): ["6.776 5.530", "7.392 6.032", "8.345 7.032", "10.944 9.534"],
    (1_048_576, 8192): ["10.514 5.530", "11.470 6.032", "12.282 7.032", "15.175 9.534"],
    (1_048_576, 16_384): ["15.498 5.530"],
}


@pytest.mark.parametrize(("at", "expected"), INKLING_TABLE.items())
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_inkling_table(ranks: int, at: tuple[int, int], expected: list[str]) -> None:
    context, batched = at
    for draft, printed in zip((0, 1, 3, 8), expected, strict=False):
        layout = kv_layout(INKLING_ALL_FULL, block_tokens=16, draft=draft, tensor_parallel=ranks)
        admitted = layout.blocks_per_request(context, in_flight=2 * batched, draft=draft)
        kept = layout.blocks_per_request(context, draft=draft)
        eighth = layout.bytes_per_block * ranks / 8

        assert f"{admitted * eighth / GIB:.3f} {kept * eighth / GIB:.3f}" == printed


# TP8, 40 GiB of KV cache on each GPU: context, batch, what vLLM logs.
INKLING_CONCURRENCY = [
    (1_048_576, 8192, "3.80"),
    (1_048_576, 2048, "5.90"),
    (1_048_576, 16_384, "2.58"),
    (262_144, 8192, "6.26"),
    (262_144, 2048, "15.1"),
    (131_072, 2048, "20.4"),
]


@pytest.mark.parametrize(("context", "batched", "printed"), INKLING_CONCURRENCY)
def test_inkling_concurrency(context: int, batched: int, printed: str) -> None:
    layout = kv_layout(INKLING, block_tokens=16, tensor_parallel=8)
    budget = kv_budget(layout, pool_bytes=40 * GIB, context=context, in_flight=2 * batched)

    assert shown(float(budget.full_context_requests), printed) == printed


def test_the_cache_that_a_refused_start_asked_for() -> None:
    # "8.29 GiB KV cache is needed, which is larger than the available KV cache memory (8.0 GiB)...
    # estimated maximum model length is 92608" (the 12-layer cut, batches of 8,192).
    layout = kv_layout(inkling_cut(2, 10), block_tokens=16)
    needed = layout.blocks_per_request(131_072, in_flight=16_384) * layout.bytes_per_block
    longest = longest_context(
        layout, pool_bytes=8 * GIB, at_most=131_072, concurrency=1, in_flight=16_384
    )

    assert (f"{needed / GIB:.2f}", longest) == ("8.29", 92_608)


# Prediction layers as they are published (sliding but for the second and the fourth): tables of
# full, sliding and convolution layers, layers of each.
PUBLISHED_DRAFTS = [
    (0, (1, 5, 6), 11),
    (1, (1, 6, 7), 11),
    (2, (1, 5, 6), 12),
    (3, (1, 5, 6), 12),
    (4, (1, 5, 6), 13),
    (8, (1, 5, 6), 13),
]


@pytest.mark.parametrize(("draft", "tables", "layers"), PUBLISHED_DRAFTS)
def test_prediction_layers_are_in_the_group_of_their_kind(
    draft: int, tables: tuple[int, int, int], layers: int
) -> None:
    layout = kv_layout(INKLING, block_tokens=16, draft=draft)

    assert tuple(group.tables for group in layout.groups) == tables
    assert layout.bytes_per_block == layers * 131_072


def test_all_sliding_prediction_layers_make_the_groups_of_the_contract() -> None:
    assert INKLING.draft is not None
    draft = msgspec.structs.replace(INKLING.draft, attention_groups=None)
    layout = kv_layout(
        msgspec.structs.replace(INKLING, draft=draft), block_tokens=16, draft=8, tensor_parallel=8
    )
    admitted = layout.blocks_per_request(1_048_576, in_flight=16_384, draft=8)

    assert sum(group.tables for group in layout.groups) == 14
    assert f"{admitted * layout.bytes_per_block / GIB:.2f}" == "11.38"


@pytest.mark.parametrize(
    ("pipeline", "ranks", "layers"), [(1, 8, 11), (2, 8, 6), (3, 4, 4), (6, 4, 2), (11, 1, 1)]
)
def test_a_stage_keeps_its_own_layers_of_each_table(pipeline: int, ranks: int, layers: int) -> None:
    whole = kv_layout(INKLING, block_tokens=16, tensor_parallel=ranks)
    stage = kv_layout(INKLING, block_tokens=16, tensor_parallel=ranks, pipeline=pipeline)

    assert stage.groups == whole.groups
    assert stage.bytes_per_block == layers * 131_072 // ranks


def test_prediction_layers_are_on_the_last_stage() -> None:
    # 33 layers each; the last stage has 6 of the 11 full ones, and both predictions that are full.
    layout = kv_layout(INKLING, block_tokens=16, pipeline=2, draft=4)

    assert layout.bytes_per_block == 8 * 131_072


def test_layers_of_one_kind_are_counted_in_their_stages() -> None:
    layout = kv_layout(QWEN3, block_tokens=128, pipeline=2)

    assert layout.bytes_per_block * 2 == kv_layout(QWEN3, block_tokens=128).bytes_per_block


def test_layers_of_one_kind_but_several_shapes_share_one_table() -> None:
    architecture = cpu_model(("Full", 2, 1, None), ("Full", 2, 4, None))
    layout = kv_layout(architecture, block_tokens=128)

    assert [group.tables for group in layout.groups] == [1]
    assert layout.bytes_per_block == 128 * 2 * 64 * 2 * (2 * 1 + 2 * 4)


def test_a_page_that_does_not_divide_the_largest_is_padded() -> None:
    architecture = cpu_model(("Sliding", 2, 2, 512), ("Full", 2, 3, None))
    layout = kv_layout(architecture, block_tokens=128)

    assert layout.bytes_per_block == 2 * (128 * 3 * 2 * 64 * 2)
    assert {group.block_tokens for group in layout.groups} == {128}


def test_longest_context_is_the_last_one_that_fits() -> None:
    layout = kv_layout(FLINT, block_tokens=16)
    pool = 20 * GIB
    longest = longest_context(
        layout, pool_bytes=pool, at_most=10_000_000, concurrency=3, in_flight=16_384
    )

    def needed(context: int) -> int:
        per_request = layout.blocks_per_request(context, in_flight=16_384)
        return bytes_needed(layout, blocks_per_request=per_request, concurrency=3)

    assert needed(longest) <= pool < needed(longest + 1)


def test_nothing_fits_a_pool_of_nothing() -> None:
    layout = kv_layout(FLINT, block_tokens=16)

    assert longest_context(layout, pool_bytes=0, at_most=100, concurrency=1, in_flight=0) == 0


def test_the_null_block_is_nobodys() -> None:
    layout = kv_layout(QWEN3, block_tokens=128)
    exact = kv_budget(layout, pool_bytes=layout.bytes_per_block * 32, context=2048, in_flight=0)
    spare = kv_budget(
        layout, pool_bytes=layout.bytes_per_block * (32 + NULL_BLOCKS), context=2048, in_flight=0
    )

    assert (exact.full_context_requests, requests_at_once(exact)) == ("2.00", 1)
    assert requests_at_once(spare) == 2
