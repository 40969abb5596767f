"""The command, the environment and the memory of one replica."""

from typing import Any

import pytest
from tests.support.builders import (
    GIB,
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    gpu_node,
    tiny_architecture,
    tiny_spec,
)

from kindling_operator.model.plan import EnginePlan
from kindling_operator.model.status import Basis
from kindling_operator.plan.argument import explained
from kindling_operator.plan.kv import POOL_ARGUMENT, pool_is_fixed


def planned(spec: Any) -> EnginePlan:
    found = Cluster(nodes=(gpu_node("gpu-0"), cpu_node(cpu_millis=16_000, memory=256 * GIB)))
    decision = found.apply(spec).decide()
    assert decision.current is not None, decision.verdicts
    return decision.current.plan


def test_the_command_on_cpu() -> None:
    assert planned(tiny_spec()).argv == (
        "vllm",
        "serve",
        "/mnt/weights/tiny",
        "--served-model-name=tiny",
        "--host=0.0.0.0",
        "--port=8000",
        "--max-model-len=4096",
        "--max-num-batched-tokens=2048",
        "--max-num-seqs=16",
        "--shutdown-timeout=600",
        "--middleware=kindling_runtime.front.asgi.Front",
        "--allowed-media-domains=fetching-media-is-off.invalid",
        "--enforce-eager",
    )


def test_the_command_for_four_bit_flint() -> None:
    spec = catalog_spec(
        "flint",
        model={"checkpoint": "NVFP4"},
        serving={"extraArgs": ["--seed=1"]},
        cache={"hostMemory": 0},
    )

    plan = planned(spec)

    assert plan.argv[10:] == (
        "--middleware=kindling_runtime.front.asgi.Front",
        "--allowed-media-domains=fetching-media-is-off.invalid",
        "--gpu-memory-utilization=0.92",
        f"--kv-cache-memory-bytes={plan.kv.bytes}",
        '--attention-config={"backend_per_kind":{"full_attention":"FLASHINFER",'
        '"sliding_window":"FLASHINFER"}}',
        "--exclude-tools-when-tool-choice-none",
        "--reasoning-parser=glm47",
        "--tool-call-parser=glm47",
        "--enable-auto-tool-choice",
        "--hf-config-path=/mnt/weights/flint",
        "--tokenizer=/mnt/weights/flint",
        "--seed=1",
    )


@pytest.mark.parametrize(
    ("spec", "fixed"),
    [
        (catalog_spec("flint"), True),
        (catalog_spec("flint", runtime={"image": "example.com/own@sha256:" + "0" * 64}), False),
    ],
    ids=["measured", "an image that nobody described"],
)
def test_the_pool_is_fixed_where_what_lies_beside_it_was_measured(spec: Any, fixed: bool) -> None:
    plan = planned(spec)

    assert plan.gpu is not None
    assert pool_is_fixed(plan) == fixed
    assert any(each.startswith(POOL_ARGUMENT) for each in plan.argv) == fixed


def test_the_rust_frontend_has_no_front_and_the_plan_says_what_that_means() -> None:
    spec = catalog_spec("flint", serving={"frontend": "Rust"})

    assert not any("--middleware" in argument for argument in planned(spec).argv)
    assert planned(spec).why[-1] == (
        "The Rust frontend takes no middleware: every route of vLLM is reachable on the serving "
        "port, and new requests are not refused while a pod leaves."
    )


def multimodal(modalities: list[str] | None) -> Any:
    architecture = tiny_architecture(modalities=["Text", "Image", "Audio"])
    return tiny_spec(architecture, serving={"modalities": modalities} if modalities else {})


@pytest.mark.parametrize(
    ("modalities", "arguments"),
    [
        (None, {'--limit-mm-per-prompt={"audio":2,"image":8}'}),
        (["Text"], {"--language-model-only"}),
        (["Text", "Image"], {'--limit-mm-per-prompt={"audio":0,"image":8}'}),
        (["Audio", "Image", "Text"], {'--limit-mm-per-prompt={"audio":2,"image":8}'}),
    ],
)
def test_what_the_user_does_not_want_is_switched_off(
    modalities: list[str] | None, arguments: set[str]
) -> None:
    plain = set(planned(tiny_spec()).argv)

    assert set(planned(multimodal(modalities)).argv) - plain == arguments


def test_the_environment_on_cpu() -> None:
    assert planned(tiny_spec()).env == {
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }


def test_more_cpu_is_more_threads() -> None:
    plan = planned(tiny_spec(runtime={"resources": {"cpu": "3500m", "memory": "1Gi"}}))

    assert plan.env["OMP_NUM_THREADS"] == "4"
    assert plan.pod.cpu_millis == 4000
    assert plan.pod.memory - planned(tiny_spec()).pod.memory == GIB


def test_the_kv_cache_on_cpu_is_as_many_whole_gib_as_the_requests_need() -> None:
    """One request of 4,096 tokens takes 32 blocks of 256 KiB, and one block is nobody's."""
    fits = planned(tiny_spec(serving={"concurrency": 127}))
    more = planned(tiny_spec(serving={"concurrency": 128}))

    assert (fits.kv.bytes, fits.env["VLLM_CPU_KVCACHE_SPACE"]) == (GIB, "1")
    assert (more.kv.bytes, more.env["VLLM_CPU_KVCACHE_SPACE"]) == (2 * GIB, "2")
    assert more.max_num_seqs == 128


def test_the_memory_of_a_gpu_adds_up_to_what_vllm_takes_of_it() -> None:
    plan = planned(catalog_spec("flint"))
    assert plan.gpu is not None

    assert [(item.item, item.basis) for item in plan.gpu.memory_items] == [
        ("Embedding", Basis.EXACT),
        ("Output head", Basis.EXACT),
        ("Attention", Basis.EXACT),
        ("KV projections", Basis.EXACT),
        ("Dense MLP", Basis.EXACT),
        ("Shared experts", Basis.EXACT),
        ("Routers", Basis.EXACT),
        ("Routed experts", Basis.EXACT),
        ("Other weights", Basis.EXACT),
        ("Activations", Basis.ESTIMATED),
        ("Logits", Basis.ESTIMATED),
        ("CUDA graphs", Basis.ESTIMATED),
        ("CUDA context", Basis.ESTIMATED),
        ("KV cache", Basis.ESTIMATED),
    ]
    whole = sum(item.bytes for item in plan.gpu.memory_items)
    assert whole == -(-(143_771 << 20) * 92 // 100)
    assert plan.kv.bytes == plan.gpu.memory_items[-1].bytes


def test_the_estimates_are_on_the_safe_side_of_the_measured_run() -> None:
    """Flint BF16 on one H200 at 0.9 of the card had 50.33 GiB of KV cache left."""
    plan = planned(catalog_spec("flint", model={"checkpoint": "BF16"}))
    card = 143_771 << 20
    measured = 50.33 * GIB + card * 0.02

    assert 0 < measured - plan.kv.bytes < 1 * GIB


NO_TIER = catalog_spec("flint", model={"checkpoint": "BF16"}, cache={"hostMemory": 0})
TIER = catalog_spec("flint", model={"checkpoint": "BF16"}, cache={"hostMemory": "256Gi"})


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [(tiny_spec(), 900), (NO_TIER, 1320), (TIER, 1560)],
    ids=["tiny", "74 GiB", "74 GiB and a tier of 256 GiB in host memory"],
)
def test_the_start_may_take_as_long_as_the_weights_do(spec: Any, seconds: int) -> None:
    assert planned(spec).startup_seconds == seconds


def test_pull_secrets_of_the_installation_and_of_the_user_without_doubles() -> None:
    spec = tiny_spec(runtime={"imagePullSecrets": [{"name": "own"}, {"name": "chart"}]})
    found = Cluster(environment=environment(image_pull_secrets=("chart",))).apply(spec).decide()

    assert found.current is not None
    assert found.current.plan.pod.image_pull_secrets == ("chart", "own")


GIVEN = {
    "by default": (
        catalog_spec("inkling", model={"checkpoint": "NVFP4"}),
        {
            "--served-model-name": "the InferenceModel's own name",
            "--max-model-len": "the longest that fits, of what the model was made for",
            "--allowed-media-domains": "nothing is fetched, and without a list every host would be"
            " allowed",
            "--speculative-config": "the depth with the most tokens per second",
            "--kv-transfer-config": "a KV tier in memory that the nodes have to spare",
        },
    ),
    "by the spec": (
        catalog_spec(
            "inkling",
            model={"checkpoint": "NVFP4"},
            serving={
                "servedName": "ink",
                "contextLength": 32_768,
                "mediaDomains": ["b.example.com", "a.example.com"],
                "speculation": {"mode": "Fixed", "tokens": 2},
                "adapters": [{"name": "a", "uri": "pvc://weights/a"}],
                "extraArgs": ["--seed=1"],
            },
            cache={"hostMemory": "64Gi", "encoderMemory": "8Gi"},
        ),
        {
            "--served-model-name": "spec.serving.servedName",
            "--max-model-len": "spec.serving.contextLength",
            "--allowed-media-domains": "spec.serving.mediaDomains",
            "--speculative-config": "spec.serving.speculation",
            "--kv-transfer-config": "spec.cache.hostMemory",
            "--ec-transfer-config": "spec.cache.encoderMemory",
            "--lora-modules": "spec.serving.adapters",
            "--moe-backend": "no other 4-bit expert kernels take adapters",
            "--seed": "spec.serving.extraArgs",
        },
    ),
}


@pytest.mark.parametrize(("spec", "told"), GIVEN.values(), ids=GIVEN.keys())
def test_an_argument_says_who_wants_it(spec: Any, told: dict[str, str]) -> None:
    decision = Cluster(nodes=(gpu_node("gpu-0", "NVIDIA-B200"),)).apply(spec).decide()
    assert decision.current is not None, decision.verdicts

    found = explained(decision.current.plan)

    assert {name: found[name] for name in told} == told
    assert all(name.startswith("--") for name in list(found)[1:]), "values of a list have none"
