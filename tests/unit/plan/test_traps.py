"""Ways in which vLLM 0.33 fails with these models, by number, each through `kindling plan`.

docs/traps.md says what catches each; `make mutation` takes that away and expects a failure here.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.builders import catalog_spec, tiny_architecture, tiny_spec
from tests.support.planning import Object, Said, node
from tests.support.trap_planner import OWN_IMAGE, Planner, b200s, fixed, h200s, lacking

from kindling_operator.plan.extra_args import name_of


@pytest.fixture
def plan(tmp_path: Path) -> Planner:
    return Planner(tmp_path)


ARGUMENTS: Final = {
    "T1: another block size lets the convolutions read wrong memory": (
        "inkling",
        "--block-size=32",
    ),
    "T4: an 8-bit KV cache, Inkling": ("inkling", "--kv-cache-dtype=fp8"),
    "T4: an 8-bit KV cache, Flint": ("flint", "--kv-cache-dtype=fp8_e4m3"),
    "T5: another attention backend": ("flint", "--attention-backend=FLASH_ATTN"),
    "T7: a quantization beside GGUF": ("flint", "--quantization=modelopt"),
    "T8: another MoE backend": ("flint", "--moe-backend=triton"),
    "T8: another MoE backend as a key": ("flint", "--kernel-config.moe_backend=triton"),
    "T10: another all-to-all backend": ("inkling", "--all2all-backend=deepep_low_latency"),
    "T11: decode context parallelism": ("flint", "--decode-context-parallel-size=2"),
    "T11: prefill context parallelism": ("inkling", "--prefill-context-parallel-size=2"),
    "T15: another interval": ("flint", "--prefix-cache-retention-interval=0"),
    "T16: a connector that switches hybrid memory off": (
        "flint",
        '--kv-transfer-config={"kv_connector":"LMCacheConnectorV1"}',
    ),
    "T20: a shutdown that cuts streams": ("flint", "--shutdown-timeout=0"),
    "T21: another front": ("flint", "--middleware=mine.Front"),
}


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_argument(plan: Planner, name: str, argument: str) -> None:
    said = plan.model(name, *b200s(), serving={"extraArgs": [argument]})

    assert (said.code, said.reason) == (1, "ForbiddenArgument")
    assert f"{name_of(argument)} is refused" in said.message


def test_t01_convolutions_keep_their_blocks(plan: Planner) -> None:
    conv = {
        "name": "conv",
        "kind": "Conv",
        "layers": 4,
        "kvHeads": 2,
        "headSize": 256,
        "headSizeValue": 0,
        "window": 4,
        "blockTokens": 4,
    }
    full = {"name": "full", "kind": "Full", "layers": 4, "kvHeads": 2, "headSize": 64}
    stretched = tiny_architecture(devices=["GPU"], attention=[full, conv])

    said = plan.spec(tiny_spec(stretched))

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert "blocks of 8 tokens for its convolutions" in said.message
    assert plan.model("inkling", *b200s()).option("--block-size") == ""


def test_t02_inkling_has_eight_kv_heads(plan: Planner) -> None:
    said = plan.model("inkling", *h200s(2), placement={"parallelism": {"tensor": 16}})

    assert (said.code, said.reason) == (1, "UnsupportedParallelism")
    assert "use 1, 2, 4 or 8" in said.message


@pytest.mark.parametrize("product", ["NVIDIA-RTX-PRO-6000", "NVIDIA-L40S"])
def test_t03_inkling_has_no_paged_kv_cache_on_small_gpus(plan: Planner, product: str) -> None:
    nodes = [node(f"gpu-{number}", product) for number in range(4)]

    said = plan.model("inkling", *nodes, model={"checkpoint": "NVFP4"})

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert "no paged KV cache" in said.message


@pytest.mark.parametrize("product", ["NVIDIA-H200", "NVIDIA-B200"])
def test_t05_flint_gets_flashinfer_for_each_group(plan: Planner, product: str) -> None:
    said = plan.model("flint", node("gpu-0", product))

    assert json.loads(said.option("--attention-config")) == {
        "backend_per_kind": {"full_attention": "FLASHINFER", "sliding_window": "FLASHINFER"}
    }
    assert said.option("--attention-backend") == ""


def test_t06_flint_needs_flashinfers_kernels_in_the_image(plan: Planner) -> None:
    spec = catalog_spec("flint", runtime=OWN_IMAGE)

    said = plan.spec(spec, packages=lacking("flashinfer-cubin"))

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert "has no flashinfer-cubin" in said.message
    assert plan.spec(spec, vllm="0.33.1").code == 0


def test_t06_flint_does_not_run_batch_invariant(plan: Planner) -> None:
    assert plan.model("flint").env["VLLM_BATCH_INVARIANT"] == "0"


def test_t07_a_gguf_folder_brings_config_and_tokenizer_by_name(plan: Planner) -> None:
    said = plan.model("flint", model={"checkpoint": "NVFP4"})

    assert said.option("--hf-config-path") == "/mnt/weights/flint"
    assert said.option("--tokenizer") == "/mnt/weights/flint"
    assert said.option("--quantization") == ""


def test_t07_a_gguf_alone_in_its_repository_is_downloaded_with_flints_config(
    plan: Planner,
) -> None:
    said = plan.model("flint", model={"checkpoint": "NVFP4", "weights": {}})
    weights = said.plan["weights"]

    assert weights["uri"] == "hf://RecursiveSI/flint-nvfp4-gguf"
    assert weights["fetch"]["configUri"] == "hf://RecursiveSI/flint"
    assert said.option("--hf-config-path") == said.option("--tokenizer") == weights["path"]


@pytest.mark.parametrize("uri", ["pvc://weights/flint", "s3://weights/flint", "hf://org/gguf"])
def test_t07_a_folder_of_ones_own_needs_the_config_beside_the_gguf(plan: Planner, uri: str) -> None:
    said = plan.model("flint", model={"checkpoint": "NVFP4", "weights": {"uri": uri}})

    assert "configUri" not in said.plan["weights"].get("fetch", {})
    [why] = [each for each in said.plan["why"] if "config.json" in each]
    assert why.startswith(f"{uri} needs config.json and the tokenizer beside the NVFP4 weights")


def test_t07_a_gguf_needs_its_reader_in_the_image(plan: Planner) -> None:
    spec = catalog_spec("flint", model={"checkpoint": "NVFP4"}, runtime=OWN_IMAGE)

    said = plan.spec(spec, packages=lacking("gguf"))

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert "has no gguf" in said.message


def test_t07_a_gguf_in_a_bucket_is_a_folder_to_the_engine(plan: Planner) -> None:
    weights = {"uri": "s3://weights/flint"}

    said = plan.model("flint", model={"checkpoint": "NVFP4", "weights": weights})

    assert said.option("--hf-config-path").startswith("/mnt/cache/weights/")
    assert said.option("--tokenizer") == said.option("--hf-config-path")
    assert not any("s3://" in argument for argument in said.plan["argv"])


def test_t08_the_engine_picks_flints_moe_kernels(plan: Planner) -> None:
    assert plan.model("flint", *b200s()).option("--moe-backend") == ""


def test_t09_stages_and_drafts_exclude_each_other(plan: Planner) -> None:
    stages = {"parallelism": {"tensor": 8, "pipeline": 2}}

    said = plan.model("inkling", *b200s(2), serving=fixed(1), placement=stages)

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert "pipeline stages, with which drafting fails" in said.message
    assert plan.model("inkling", *b200s(2), placement=stages).plan.get("draftTokens", 0) == 0


def test_t09_only_whole_rounds_of_the_prediction_layers(plan: Planner) -> None:
    said = plan.model("inkling", *b200s(), serving=fixed(9))

    assert (said.code, said.reason) == (1, "InvalidSpec")
    assert "use 1 to 8, or a multiple of 8" in said.message


def test_t09_a_model_without_prediction_layers_drafts_nothing(plan: Planner) -> None:
    said = plan.model("flint", serving=fixed(2))

    assert (said.code, said.reason) == (1, "InvalidSpec")
    assert "Flint has no prediction layers" in said.message


def test_t09_a_draft_is_no_longer_than_a_block(plan: Planner) -> None:
    deep = tiny_architecture(
        devices=["GPU"], draft={"depths": 8, "attentionGroup": "full_attention"}
    )

    said = plan.spec(tiny_spec(deep, serving=fixed(24)))

    assert (said.code, said.reason) == (1, "InvalidSpec")
    assert "the scheduler's block has 16 tokens" in said.message


def test_t10_experts_over_data_ranks_use_the_backend_that_works(plan: Planner) -> None:
    said = plan.model(
        "inkling",
        *h200s(2),
        placement={"parallelism": {"tensor": 8, "data": 2, "expert": True}},
    )

    assert "--enable-expert-parallel" in said.argv
    assert said.option("--all2all-backend") == "allgather_reducescatter"


ADAPTERS: Final = {"adapters": [{"name": "legal", "uri": "pvc://weights/legal"}]}


def test_t12_flint_has_no_adapters(plan: Planner) -> None:
    said = plan.model("flint", serving=ADAPTERS)

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert "not known to serve adapters of Flint" in said.message


def test_t12_inklings_adapters_need_two_variables(plan: Planner) -> None:
    said = plan.model("inkling", *b200s(), serving=ADAPTERS)

    assert (said.code, said.reason) == (0, "Unverified")
    assert said.env["INKLING_MULTIMEM_AR"] == said.env["LAMPORT_RS_SCONV"] == "0"
    assert said.option("--lora-modules") == "legal=/mnt/weights/legal"
    assert "LAMPORT_RS_SCONV" not in plan.model("inkling", *b200s()).env


def test_t18_a_context_is_admitted_before_the_start(plan: Planner) -> None:
    said = plan.model("flint", serving={"concurrency": 4096})

    assert (said.code, said.reason) == (1, "ContextDoesNotFit")
    assert "short by" in said.message


def test_t19_vllms_own_clock_ends_no_load_that_the_runtime_would_keep(plan: Planner) -> None:
    for said in (plan.model("flint"), plan.model("inkling", *b200s())):
        assert int(said.env["VLLM_ENGINE_READY_TIMEOUT_S"]) > 5 * said.plan["startupSeconds"]
        assert said.plan["startupSeconds"] > 600


def test_t20_streams_get_their_deadline(plan: Planner) -> None:
    said = plan.model("flint", rollout={"drainDeadline": "5m"})

    assert said.option("--shutdown-timeout") == "300"
    assert said.pod["terminationGracePeriodSeconds"] > 300


def test_t21_listed_paths_are_served_and_no_others(plan: Planner) -> None:
    assert plan.model("flint").option("--middleware") == "kindling_runtime.front.asgi.Front"


def trays(*, clique: bool) -> list[Object]:
    """Nodes of 4 B200 that one NVLink domain spans, or not."""
    labels = {"gpu_clique": "rack.1"} if clique else {}
    return [node(f"tray-{number}", "NVIDIA-B200", gpus=4, **labels) for number in range(2)]


def test_t22_tensor_ranks_span_nodes_only_inside_an_nvlink_domain(plan: Planner) -> None:
    pinned = {"parallelism": {"tensor": 8}}

    inside = plan.model("inkling", *trays(clique=True), placement=pinned)
    outside = plan.model("inkling", *trays(clique=False), placement=pinned)

    assert (inside.code, inside.plan["gpu"]["oneClique"]) == (0, True)
    assert (outside.code, outside.reason) == (1, "UnsupportedParallelism")


def test_t23_full_precision_flint_is_too_large_for_80_gb(plan: Planner) -> None:
    said = plan.model("flint", node("gpu-0", "NVIDIA-H100-80GB-HBM3"), model={"checkpoint": "BF16"})

    option = "BF16 TP1 on 1 x NVIDIA-H100-80GB-HBM3 (sm90, amd64)"
    assert said.rejected[option] == "WeightsDoNotFit"
    assert said.option("--tensor-parallel-size") == "2"


def test_t24_flint_scales_out_with_replicas(plan: Planner) -> None:
    assert plan.model("flint").option("--tensor-parallel-size") == ""


def test_t24_beyond_four_ranks_flint_gains_no_kv_cache(plan: Planner) -> None:
    four, eight = (
        plan.model("flint", placement={"parallelism": {"tensor": size}}).plan["kv"]
        for size in (4, 8)
    )

    assert four["bytes"] // four["blocks"] == eight["bytes"] // eight["blocks"]


def test_t25_prefill_and_decode_are_not_paired_yet(plan: Planner) -> None:
    pair = {"disaggregation": {"prefillReplicas": 1, "decodeReplicas": 1}}

    said = plan.model("flint", serving=pair)

    assert (said.code, said.reason) == (1, "NotYetSupported")
    assert said.message.startswith("spec.serving.disaggregation ")


@pytest.mark.parametrize(
    "argument",
    [
        "--max-num-queued-reqs=8",
        "--max-num-queued-tokens=8",
        "--override-generation-config={}",
        "--otlp-traces-endpoint=http://otel:4317",
    ],
)
def test_t27_options_that_end_the_rust_frontend(plan: Planner, argument: str) -> None:
    serving = {"frontend": "Rust", "extraArgs": [argument]}

    said = plan.model("flint", serving=serving)

    assert (said.code, said.reason) == (1, "ForbiddenArgument")
    assert "ends the Rust frontend" in said.message
    assert plan.model("flint", serving={**serving, "frontend": "Python"}).code == 0


def test_t27_the_rust_frontend_gets_no_option_that_ends_it(plan: Planner) -> None:
    said = plan.model("flint", serving={"frontend": "Rust"})

    assert said.env["VLLM_USE_RUST_FRONTEND"] == "1"
    assert said.option("--allowed-media-domains") == ""


def test_t27_the_rust_frontend_cannot_limit_hosts(plan: Planner) -> None:
    said = plan.model("inkling", *b200s(), serving={"frontend": "Rust"})

    assert (said.code, said.reason) == (1, "InvalidSpec")
    assert "cannot limit which hosts" in said.message


def test_t27_the_rust_frontend_does_not_balance_between_nodes(plan: Planner) -> None:
    said = plan.model(
        "inkling",
        *h200s(2),
        serving={"frontend": "Rust", "modalities": ["Text"]},
        placement={"parallelism": {"tensor": 8, "data": 2, "expert": True}},
    )

    assert (said.code, said.reason) == (1, "UnsupportedParallelism")
    assert "which the Rust frontend cannot" in said.message


@pytest.mark.parametrize(
    ("model", "package"),
    [
        ("flint", "pydantic-extra-types"),
        ("inkling", "pydantic-extra-types"),
        ("inkling", "nvidia-cutlass-dsl-libs-core"),
    ],
)
@pytest.mark.parametrize("serving", [{}, {"modalities": ["Text"]}])
def test_t32_two_packages_must_be_in_the_image(
    plan: Planner, model: str, package: str, serving: dict[str, Any]
) -> None:
    spec = catalog_spec(model, runtime=OWN_IMAGE, serving=serving)

    said = plan.spec(spec, *b200s(), packages=lacking(package))

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert f"has no {package}" in said.message


def test_t32_flint_needs_no_cutlass(plan: Planner) -> None:
    spec = catalog_spec("flint", runtime=OWN_IMAGE)

    assert plan.spec(spec, *b200s(), packages=lacking("nvidia-cutlass-dsl-libs-core")).code == 0


def test_t33_a_long_context_is_slow_on_hopper_unless_the_image_splits_it(plan: Planner) -> None:
    spec = catalog_spec(
        "inkling",
        model={"checkpoint": "BF16"},
        serving={"speculation": {"mode": "Disabled"}},
        runtime=OWN_IMAGE,
    )

    stock, split = (plan.spec(spec, *h200s(2), splitKv=value) for value in (False, True))

    assert step(stock) > step(split) + 40e6
    assert step(split) < 40e6


def step(said: Said) -> int:
    """Nanoseconds of one step of decoding."""
    return sum(term["nanoseconds"] for term in said.plan["speed"]["decode"])
