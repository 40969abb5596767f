"""What replicas measured against their plan: the words in which status tells of a difference."""

import pytest
from msgspec import structs
from tests.support.observed import NOW, PLAN, decision, deployment, pod, revision, snapshot, told

from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import EnginePlan, GpuPlan
from kindling_operator.model.reports import Report
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import AttentionBackend, Basis, MemoryItem
from kindling_operator.report.status import status

GPU = structs.replace(
    PLAN,
    gpu=GpuPlan(
        product="NVIDIA-H200",
        architecture="amd64",
        memory_items=(
            MemoryItem(item="Attention", bytes=90, basis=Basis.EXACT),
            MemoryItem(item="Routed experts", bytes=10, basis=Basis.EXACT),
            MemoryItem(item="Activations", bytes=200, basis=Basis.ESTIMATED),
            MemoryItem(item="Logits", bytes=20, basis=Basis.ESTIMATED),
            MemoryItem(item="CUDA graphs", bytes=5, basis=Basis.ESTIMATED),
        ),
    ),
    attention_backends=(AttentionBackend(group="full", backend="FLASH_ATTN"),),
)
TWO = (
    AttentionBackend(group="full_attention", backend="FLASH_ATTN"),
    AttentionBackend(group="sliding_window", backend="TRITON_ATTN"),
)
END = ": report the difference together with `kubectl get im -o yaml`."


def seen(report: Report | None) -> Snapshot:
    return snapshot(
        pods=[pod("one", ready=True)],
        children=[deployment()],
        endpoints=["one"],
        reports={} if report is None else {"uid-of-one": report},
    )


def says(plan: EnginePlan, report: Report | None) -> tuple[str, str]:
    found = told(seen(report), decision((revision(plan=plan), 1)))["PlanCurrent"]
    return found.reason, found.message


DIFFERENT = {
    "fewer blocks": (PLAN, Report(kv_blocks=100), "has 100 KV blocks and the plan says 128"),
    "more blocks on CPU": (PLAN, Report(kv_blocks=200), "has 200 KV blocks and the plan says 128"),
    "more blocks than a GPU's plan fixes": (
        structs.replace(GPU, argv=(*GPU.argv, "--kv-cache-memory-bytes=1024")),
        Report(kv_blocks=200),
        "has 200 KV blocks and the plan says 128",
    ),
    "other tokens": (
        PLAN,
        Report(kv_blocks=128, kv_tokens=4096),
        "has a KV cache of 4096 tokens and the plan says 2048",
    ),
    "another type": (
        PLAN,
        Report(kv_blocks=128, cache_dtype="fp8"),
        "keeps its KV cache as fp8 and the plan says auto",
    ),
    "a correction that is not in place": (
        structs.replace(
            GPU, gpu=GpuPlan(product="NVIDIA-H200", architecture="amd64", corrections=("split-kv",))
        ),
        Report(kv_blocks=128, off=(("split-kv", "KINDLING_PLUGIN_SPLIT_KV is 0"),)),
        "runs without the correction split-kv (KINDLING_PLUGIN_SPLIT_KV is 0), on which the plan"
        " counts",
    ),
    "far more blocks than estimated": (
        GPU,
        Report(kv_blocks=200),
        "has 200 KV blocks and the plan says 128",
    ),
    "blocks of another size, and one more": (
        GPU,
        Report(kv_blocks=129, kv_tokens=1032),
        "has a KV cache of 1032 tokens and the plan says 2048",
    ),
    "the kernels of two groups changed over": (
        structs.replace(GPU, attention_backends=TWO),
        Report(kv_blocks=128, backends=(("full length", "TRITON_ATTN"),)),
        "runs its layers of full length with TRITON_ATTN and the plan says FLASH_ATTN",
    ),
    "the kernel of a window": (
        structs.replace(GPU, attention_backends=TWO),
        Report(kv_blocks=128, backends=(("window 512", "FLASH_ATTN"),)),
        "runs its layers of window 512 with FLASH_ATTN and the plan says TRITON_ATTN",
    ),
    "another kernel": (
        GPU,
        Report(kv_blocks=128, backends=(("full length", "TRITON_ATTN"),)),
        "runs its layers of full length with TRITON_ATTN and the plan says FLASH_ATTN",
    ),
}


@pytest.mark.parametrize(("plan", "report", "words"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_difference_is_told_with_both(plan: EnginePlan, report: Report, words: str) -> None:
    assert says(plan, report) == ("PlanMismatch", f"vLLM in pod one {words}{END}")


SAME = {
    "nothing told": (PLAN, None),
    "no numbers yet": (PLAN, Report(progress="loads")),
    "equal": (PLAN, Report(kv_blocks=128, kv_tokens=2048, cache_dtype="auto")),
    "the model's own type, said": (PLAN, Report(kv_blocks=128, cache_dtype="bfloat16")),
    "more room on a GPU than estimated": (GPU, Report(kv_blocks=180, kv_tokens=2860)),
    "a correction that no plan counts on": (GPU, Report(kv_blocks=128, off=(("split-kv", "no"),))),
    "the planned kernels": (
        structs.replace(GPU, attention_backends=TWO),
        Report(
            kv_blocks=128, backends=(("full length", "FLASH_ATTN"), ("window 512", "TRITON_ATTN"))
        ),
    ),
    "a convolution, which is a window to vLLM": (
        structs.replace(
            GPU,
            attention_backends=(*TWO, AttentionBackend(group="short_conv", backend="SCONV_SWA")),
        ),
        Report(kv_blocks=128, backends=(("window 4", "SCONV_SWA"),)),
    ),
    "layers that no window is known of": (
        structs.replace(GPU, attention_backends=(AttentionBackend(group="ssm", backend="GDN"),)),
        Report(kv_blocks=128, backends=(("full length", "GDN"),)),
    ),
    "the planned kernel": (GPU, Report(kv_blocks=128, backends=(("window 512", "FLASH_ATTN"),))),
}


@pytest.mark.parametrize(("plan", "report"), SAME.values(), ids=SAME)
def test_what_is_as_planned_is_current(plan: EnginePlan, report: Report | None) -> None:
    assert says(plan, report)[0] == "Current"


def test_a_measured_line_takes_the_place_of_the_estimate() -> None:
    made = decision((revision(plan=GPU), 1))
    report = Report(kv_blocks=128, memory=(("Activations", 150), ("Other", 9), ("Weights", 101)))

    plan = status(seen(report), made, Outcome()).plan

    assert plan is not None
    assert plan.memory_per_gpu == (
        MemoryItem(item="Weights", bytes=101, basis=Basis.MEASURED),
        MemoryItem(item="Activations", bytes=150, basis=Basis.MEASURED),
        MemoryItem(item="CUDA graphs", bytes=5, basis=Basis.ESTIMATED),
    )


def test_a_starting_pod_tells_how_far_it_is() -> None:
    found = snapshot(
        pods=[pod("one")],
        children=[deployment()],
        reports={"uid-of-one": Report(progress="412.0 of 592.0 GiB, 4 min left")},
    )

    message = told(found, decision((revision(), 1)))["Progressing"].message

    assert message.endswith("to generate a token (412.0 of 592.0 GiB, 4 min left).")


def test_a_pod_that_downloads_tells_how_far_it_is() -> None:
    found = snapshot(
        pods=[pod("one", phase="Pending", fetching=True, started=NOW)],
        children=[deployment()],
        reports={"uid-of-one": Report(progress="412.0 of 592.0 GiB, 820.0 MiB/s, 4 min left")},
    )

    told_of = told(found, decision((revision(), 1)))["Progressing"]

    assert told_of.reason == "Downloading"
    assert told_of.message == (
        "0 of 1 replicas of flint-1111111111 generate tokens; pod one downloads the weights"
        " (412.0 of 592.0 GiB, 820.0 MiB/s, 4 min left)."
    )


def test_a_download_that_failed_is_told_in_its_words() -> None:
    ended = pod(
        "one",
        phase="Pending",
        waiting_reason="CrashLoopBackOff",
        ended_exit_code=78,
        ended_message="CacheFull: the volume has 3.0 GiB left and the weights need 74.1",
    )
    found = told(snapshot(pods=[ended], children=[deployment()]), decision((revision(), 1)))

    assert (found["Available"].reason, found["Available"].message) == (
        "WeightsIncomplete",
        "one: the volume has 3.0 GiB left and the weights need 74.1.",
    )
