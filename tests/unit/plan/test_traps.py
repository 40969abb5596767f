"""Ways in which vLLM 0.33 fails with these models, by number; each is caught before a GPU is used.

The numbers are those of the project's list of preflight traps; what needs more than one GPU, an
offload tier or the runtime is not here yet.
"""

from typing import Any

import pytest
from tests.support.builders import Cluster, catalog_spec, gpu_node

from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import Decision


def decided(name: str, *, product: str = "NVIDIA-H200", **spec: Any) -> Decision:
    return Cluster(nodes=(gpu_node("gpu-0", product),)).apply(catalog_spec(name, **spec)).decide()


ARGUMENTS = {
    "T1: another block size lets the convolutions read wrong memory": (
        "inkling",
        "--block-size=32",
    ),
    "T4: an 8-bit KV cache, Inkling": ("inkling", "--kv-cache-dtype=fp8"),
    "T4: an 8-bit KV cache, Flint": ("flint", "--kv-cache-dtype=fp8_e4m3"),
    "T7: a quantization beside GGUF": ("flint", "--quantization=modelopt"),
    "T8: another MoE backend": ("flint", "--moe-backend=triton"),
    "T10: another all-to-all backend": ("inkling", "--all2all-backend=deepep_low_latency"),
    "T11: decode context parallelism": ("flint", "--decode-context-parallel-size=2"),
    "T11: prefill context parallelism": ("inkling", "--prefill-context-parallel-size=2"),
    "T12: LoRA on Flint": ("flint", "--enable-lora"),
    "T16: a connector that switches hybrid memory off": (
        "flint",
        '--kv-transfer-config={"kv_connector":"LMCacheConnectorV1"}',
    ),
    "T20: a shutdown that cuts streams": ("flint", "--shutdown-timeout=0"),
}


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_argument(name: str, argument: str) -> None:
    refused = decided(name, serving={"extraArgs": [argument]}).refused

    assert refused is not None
    assert refused.reason is Reason.FORBIDDEN_ARGUMENT
    assert argument.partition("=")[0] in refused.message


def argv(**spec: Any) -> tuple[str, ...]:
    current = decided("flint", **spec).current
    assert current is not None
    return current.plan.argv


def test_t3_inkling_has_no_paged_kv_cache_on_sm120() -> None:
    refused = decided("inkling", product="NVIDIA-RTX-PRO-6000").refused

    assert refused is not None
    assert refused.reason is Reason.BROKEN_COMBINATION


def test_t5_flint_gets_flashinfer() -> None:
    assert (
        '--attention-config={"backend_per_kind":{"full_attention":"FLASHINFER",'
        '"sliding_window":"FLASHINFER"}}'
    ) in argv()


def test_t7_a_gguf_folder_brings_config_and_tokenizer_by_name() -> None:
    four_bit = set(argv(model={"checkpoint": "NVFP4"})) - set(argv())

    assert four_bit == {
        "--hf-config-path=/mnt/weights/flint",
        "--tokenizer=/mnt/weights/flint",
    }


def test_t18_a_context_is_admitted_before_the_start() -> None:
    refused = decided("flint", serving={"concurrency": 4096}).refused

    assert refused is not None
    assert refused.reason is Reason.CONTEXT_DOES_NOT_FIT


def test_t19_the_engine_may_take_as_long_to_start_as_the_plan_says() -> None:
    current = decided("flint").current

    assert current is not None
    plan = current.plan
    assert plan.env["VLLM_ENGINE_READY_TIMEOUT_S"] == str(plan.startup_seconds)


def test_t20_streams_get_their_deadline() -> None:
    assert "--shutdown-timeout=300" in argv(rollout={"drainDeadline": "5m"})


def test_t23_full_precision_flint_is_too_large_for_80_gb() -> None:
    current = decided(
        "flint", product="NVIDIA-H100-80GB-HBM3", model={"checkpoint": "BF16"}
    ).current

    assert current is not None
    assert current.plan.parallelism.tensor == 2
    told = {each.option: each.reason for each in current.plan.rejected}
    assert told["BF16 TP1 on 1 x NVIDIA-H100-80GB-HBM3 (sm90, amd64)"] == "WeightsDoNotFit"
