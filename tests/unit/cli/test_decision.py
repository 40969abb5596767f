"""The parts of a plan's text that only some plans have, and what a terminal makes of all of it."""

import re
from dataclasses import replace
from typing import Final

import pytest
from msgspec import structs
from tests.support.observed import KEY, NOW, PLAN, decision, pod, revision

from kindling_operator.cli_decision import OPTIONS, decision_text, places_of
from kindling_operator.cli_terminal import Terminal
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.plan import (
    Decision,
    EnginePlan,
    GpuPlan,
    GroupPlan,
    HostTierPlan,
    RolloutState,
    SpeedPlan,
    SpeedTerm,
    Verdict,
)
from kindling_operator.model.status import AttentionBackend, Basis, MemoryItem, RejectedOption

GIB: Final = 1 << 30
COLOUR: Final = re.compile(r"\x1b\[[0-9]+m")

GROUP: Final[EnginePlan] = structs.replace(
    PLAN,
    summary="16x NVIDIA-H200 in 2 nodes, BF16, TP8 DP2",
    argv=("vllm", "serve", "/weights", "--tensor-parallel-size=8", '--x={"a": 1}'),
    gpu=GpuPlan(
        product="NVIDIA-H200",
        architecture="amd64",
        count=8,
        nodes=2,
        one_clique=True,
        memory_items=(
            MemoryItem(item="Weights", bytes=90 * GIB, basis=Basis.EXACT),
            MemoryItem(item="Activations", bytes=2 * GIB, basis=Basis.MEASURED),
            MemoryItem(item="CUDA graphs", bytes=GIB // 2, basis=Basis.ESTIMATED),
        ),
    ),
    group=GroupPlan(
        rank_arguments=(("--node-rank=0",), ("--node-rank=1", "--headless")),
        serving=(True, False),
    ),
    draft_tokens=4,
    attention_backends=(
        AttentionBackend(group="full_attention", backend="FLASH_ATTN"),
        AttentionBackend(group="short_conv", backend="SCONV"),
    ),
    host_tier=HostTierPlan(bytes=200 * GIB, chunk_blocks=4, retention_tokens=8064),
    media_domains=("assets.example.com",),
    speed=SpeedPlan(
        context=131_072,
        decode=(
            SpeedTerm(item="Weights", nanoseconds=4_000_000),
            SpeedTerm(item="All-reduce", nanoseconds=1_000_000),
        ),
        tokens_per_step="2.50",
        prefill_tokens_per_second=21_000,
    ),
)


def made(plan: EnginePlan, **changes: object) -> Decision:
    fresh = revision(plan=plan, created=None)
    said = Verdict(ConditionType.ACCEPTED, Reason.SPEC_ACCEPTED, f"{plan.summary}.")
    return replace(decision((fresh, 1)), verdicts=(said,), **changes)  # type: ignore[arg-type]


def text(found: Decision, *, width: int = 100, colour: bool = False) -> str:
    return decision_text(found, Terminal(width=width, colour=colour), nodes=("gpu-1 + gpu-2",))


def test_all_that_a_plan_over_nodes_has() -> None:
    lines = text(made(GROUP)).splitlines()

    assert lines[:10] == [
        "ml/flint: 16x NVIDIA-H200 in 2 nodes, BF16, TP8 DP2.",
        "  placement    2 pods of 8 GPUs, 1 CPU and 6.0 GiB of memory per replica, in one NVLink"
        " domain; on",
        "               gpu-1 + gpu-2",
        "  weights      pvc://weights/tiny at /weights",
        "  image        cpu@sha256:2",
        "  context      2048 tokens, 8.0 requests at once",
        "  KV cache     128 blocks, 16 per request, 2048 tokens",
        "  host tier    200.0 GiB per pod, chunks of 4 blocks, 8064 tokens apart",
        "  speculation  MTP, 4 tokens",
        "  attention    full_attention FLASH_ATTN, short_conv SCONV",
    ]
    assert lines[10:16] == [
        "  media from   assets.example.com",
        "  start, drain at most 1800 s, 600 s",
        "  time of one step at 131072 tokens: 5.00 ms for 2.50 tokens, 500 tokens/s",
        f"    Weights                        4.00 ms  Estimated  {'█' * 36}",
        f"    All-reduce                     1.00 ms  Estimated  {'█' * 9}",
        "    prompts: 21000 tokens/s of one replica",
    ]
    assert lines[-4:] == [
        "  command",
        """    vllm serve /weights --tensor-parallel-size=8 '--x={"a": 1}'""",
        "    pod 0 (serves): --node-rank=0",
        "    pod 1 (headless): --node-rank=1 --headless",
    ]


def test_each_number_of_a_budget_says_how_it_is_known() -> None:
    lines = text(made(GROUP)).splitlines()
    start = lines.index("  memory of each NVIDIA-H200: 92.5 GiB")

    shown = [line.split() for line in lines[start + 1 : start + 4]]
    assert [words[-2] for words in shown] == ["Exact", "Measured", "Estimated"]
    bars = [len(words[-1]) for words in shown]
    assert bars == sorted(bars, reverse=True), "the bars are to scale"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = structs.replace(GROUP, argv=("vllm", "serve", *(f"--flag-{n}=value" for n in range(40))))
    assert all(len(line) <= width for line in text(made(long), width=width).splitlines())


def test_colours_change_nothing_but_colours() -> None:
    plain, painted = text(made(GROUP)), text(made(GROUP), colour=True)

    assert "\x1b" not in plain
    assert painted != plain
    assert COLOUR.sub("", painted) == plain


def test_only_the_nearest_options_are_told_and_equal_reasons_once() -> None:
    options = tuple(
        RejectedOption(option=f"TP{n}", reason="NotPreferred", message="Fits.") for n in range(12)
    )
    found = structs.replace(PLAN, rejected=options, rejected_total=30)
    lines = text(made(found)).splitlines()

    start = lines.index("  not taken (30, the nearest first)")
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["OPTION", "WHY", "NOT"],
        ["TP0", "NotPreferred:", "Fits."],
        ["TP1", "as", "above"],
    ]
    assert len(lines) == start + 3 + OPTIONS
    assert lines[-1] == "    and 22 more; -o json has the nearest 12"


def test_a_refused_change_is_told_with_its_options_and_with_what_still_runs() -> None:
    refused = Verdict(ConditionType.ACCEPTED, Reason.WEIGHTS_DO_NOT_FIT, "Too large: use less.")
    found = replace(decision((revision(created=NOW), 1)), verdicts=(refused,))
    option = RejectedOption(option="TP1", reason="WeightsDoNotFit", message="Too large.")

    lines = decision_text(found, Terminal(), considered=(option,)).splitlines()

    assert lines[:5] == [
        "ml/flint: refused, WeightsDoNotFit",
        "  Too large: use less.",
        "  not taken (1)",
        "    OPTION  WHY NOT",
        "    TP1     WeightsDoNotFit: Too large.",
    ]
    assert lines[5].startswith("  stored       revision (replicas): ")


def test_a_plan_of_a_release_that_kept_no_reasons_says_so() -> None:
    lines = decision_text(made(PLAN), Terminal(), why=True).splitlines()

    start = lines.index("  arguments")
    assert lines[start + 1] == "    this plan was stored by a release that kept no reasons"


def test_what_is_stored_in_the_cluster_is_told_with_the_better_plan() -> None:
    better = Verdict(
        ConditionType.PLAN_CURRENT, Reason.BETTER_PLAN_AVAILABLE, "Run `kindling replan`."
    )
    old, new = revision("0000000000", created=NOW), revision("1111111111", created=NOW)
    found = replace(decision((new, 2), (old, 1)), better=better, state=RolloutState.ROLLING)

    lines = text(found).splitlines()

    assert lines[1] == (
        "  stored       revision (replicas): 1111111111 (2), 0000000000 (1), Rolling"
    )
    assert lines[2] == "  better       Run `kindling replan`."


def test_places_are_counted_and_groups_are_joined() -> None:
    pods = [pod("one-1", node="gpu-1"), pod("one-2", node="gpu-1"), pod("new", node="")]

    assert places_of(pods, [("gpu-2", "gpu-3"), ("gpu-0",)]) == (
        "gpu-0",
        "gpu-1 (2 replicas)",
        "gpu-2 + gpu-3",
    )
    assert pods[0].model == KEY
