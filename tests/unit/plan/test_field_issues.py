"""What goes wrong at users of similar systems: GPU counts, layouts, and memory of the KV cache.

Each test is named after the behaviour, with the public thread in which its absence was reported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.support.builders import (
    GIB,
    KEY,
    Cluster,
    catalog_spec,
    environment,
    foreign_pod,
    gpu_node,
    tiny_architecture,
    tiny_spec,
)
from tests.support.candidates import candidate, subject
from tests.support.manifests import requested_gpus

from kindling_operator.model.architecture import Capability, CapabilityStatus
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.layout import Layout
from kindling_operator.model.names import GPU_RESOURCE
from kindling_operator.model.plan import EnginePlan
from kindling_operator.model.snapshot import Environment
from kindling_operator.plan.better import layout_of
from kindling_operator.plan.fit import Misfit
from kindling_operator.plan.memory import HOST_TIER
from kindling_operator.plan.sizing import gpu_sizing


def h200(count: int, **changes: Any) -> tuple[Any, ...]:
    return tuple(gpu_node(f"gpu-{number}", **changes) for number in range(count))


def planned(found: Cluster) -> EnginePlan:
    decision = found.decide()
    assert decision.current is not None, decision.verdicts
    return decision.current.plan


# A. Wrong GPU count, wrong parallelism.


def test_a_plan_is_bounded_by_the_gpus_that_exist() -> None:
    """ai-dynamo/dynamo#8583: 50 GPUs asked of 32, pods pending for ever."""
    pins = {"parallelism": {"tensor": 8, "data": 8, "expert": True}}
    found = Cluster(nodes=h200(4)).apply(catalog_spec("inkling", placement=pins))

    decision = found.decide()

    assert decision.refused is not None
    assert decision.refused.reason is Reason.UNSUPPORTED_PARALLELISM
    assert decision.refused.message == (
        "spec.placement.parallelism {tensor: 8, data: 8, expert: true} has no layout on"
        " NVIDIA-H200, of which there are 4 nodes of at most 8 GPUs: leave out what is pinned, or"
        " add nodes."
    )
    assert found.manifests() == ()


def test_a_plan_is_bounded_by_the_gpus_that_are_free() -> None:
    """ai-dynamo/dynamo#8583: allocatable minus in use, with the shortfall, and nothing is made."""
    busy = tuple(foreign_pod(f"gpu-{n}", gpus=1, name=f"job-{n}") for n in range(2))
    found = Cluster(nodes=h200(2), pods=busy).apply(catalog_spec("inkling"))

    waiting = found.decide().verdict(ConditionType.SCHEDULED)

    assert waiting is not None
    assert waiting.reason is Reason.INSUFFICIENT_GPU
    assert waiting.message.startswith("Needs 2 nodes with 8 x NVIDIA-H200")
    assert waiting.message.endswith(
        "; 0 of 2 have that, next best gpu-0, gpu-1 (2 held in other namespaces): free 2 more or"
        " add nodes."
    )
    assert found.manifests() == ()


def test_data_ranks_are_counted_once() -> None:
    """ai-dynamo/dynamo#8567: data ranks counted as engines of their own, 128 GPUs requested."""
    found = Cluster(nodes=h200(2)).apply(catalog_spec("inkling"))
    plan = planned(found)

    layout = layout_of(plan)
    assert (layout.tensor, layout.data, layout.expert, layout.gpus) == (8, 2, True, 16)
    assert requested_gpus(found.manifests()) == 16


def test_what_every_rank_holds_is_counted_on_every_rank() -> None:
    """ai-dynamo/dynamo#8571: under expert parallelism only the experts are divided."""
    inkling = subject("inkling")
    spread = Layout(tensor=1, data=16, expert=True, nodes=2)
    found = gpu_sizing(candidate(inkling, "NVIDIA-H200", spread))

    assert isinstance(found, Misfit)
    assert found.reason is Reason.WEIGHTS_DO_NOT_FIT
    divided = gpu_sizing(candidate(inkling, "NVIDIA-H200", replace(spread, tensor=8, data=2)))
    assert not isinstance(divided, Misfit)


def test_no_size_is_chosen_that_does_not_divide_the_heads() -> None:
    """gpustack/gpustack#814: three GPUs are free, and 64 heads do not divide over three."""
    spec = tiny_spec(
        tiny_architecture(
            devices=["GPU"],
            hiddenSize=5120,
            vocabularySize=151_936,
            attentionHeads=64,
            layers=64,
            intermediateSize=25_600,
            attention=[
                {"name": "full", "kind": "Full", "layers": 64, "kvHeads": 8, "headSize": 128}
            ],
            contextLength=40_960,
            checkpoints=[{"name": "BF16", "bytes": 65_524_246_528}],
        )
    )

    plan = planned(Cluster(nodes=(gpu_node("lab", "NVIDIA-L40S", gpus=3),)).apply(spec))

    assert layout_of(plan) == Layout(tensor=2)


def test_a_size_that_does_not_divide_the_heads_is_refused() -> None:
    """gpustack/gpustack#814: even where somebody insists."""
    pinned = catalog_spec("flint", placement={"parallelism": {"tensor": 3}})
    refused = Cluster(nodes=h200(1)).apply(pinned).decide().refused

    assert refused is not None
    assert refused.reason is Reason.UNSUPPORTED_PARALLELISM
    assert refused.message.startswith(
        "spec.placement.parallelism.tensor 3 does not divide 32 attention heads: use 1, 2, 4"
    )


def knows_that(**known: Any) -> Environment:
    """An installation whose runtime is known for something about Inkling."""
    base = environment()
    cuda = base.runtimes["cuda"]
    models = tuple(
        structs.replace(
            model,
            capabilities=(
                Capability(reason="it hangs", source="a test", **known),
                *model.capabilities,
            ),
        )
        for model in cuda.models
    )
    return replace(base, runtimes={**base.runtimes, "cuda": structs.replace(cuda, models=models)})


def test_what_is_tested_of_the_image_counts_beside_the_arithmetic() -> None:
    """kaito-project/kaito#2121: a layout that adds up, and that this vLLM is known to fail with."""
    broken = knows_that(status=CapabilityStatus.BROKEN, feature="DataParallel")
    spec = catalog_spec("inkling")

    usual = planned(Cluster(nodes=h200(2)).apply(spec))
    around = planned(Cluster(nodes=h200(2), environment=broken).apply(spec))

    assert layout_of(usual).data == 2
    assert layout_of(around) == Layout(tensor=8, pipeline=2, nodes=2)
    assert around.draft_tokens == 0


# C. Memory of the KV cache.


def pod_of(found: Cluster) -> Any:
    (deployment,) = (m for m in found.manifests() if m["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]


def test_shared_memory_and_limit_follow_from_the_tier() -> None:
    """kserve/kserve#6086: a tier larger than /dev/shm ends vLLM, or the pod's limit does."""
    tier = {"cache": {"hostMemory": "200Gi"}}
    found = Cluster(nodes=h200(1)).apply(catalog_spec("flint", **tier))
    plan = planned(found)

    (shm,) = (v for v in pod_of(found)["volumes"] if v.get("emptyDir", {}).get("medium"))
    limit = pod_of(found)["containers"][0]["resources"]["limits"]["memory"]
    lines = {item.item: item.bytes for item in plan.pod.memory_items}
    assert lines[HOST_TIER] == 200 * GIB
    assert plan.pod.shared_memory > 200 * GIB
    assert plan.pod.memory == sum(lines.values())
    assert shm["emptyDir"]["sizeLimit"] == f"{plan.pod.shared_memory >> 30}Gi"
    assert limit == f"{plan.pod.memory >> 30}Gi"


def test_a_tier_that_no_node_has_memory_for_waits_with_the_sum() -> None:
    """kserve/kserve#6086: said before a pod is made."""
    found = Cluster(nodes=h200(1, memory=256 * GIB))
    found.apply(catalog_spec("flint", cache={"hostMemory": "1Ti"}))

    waiting = found.decide().verdict(ConditionType.SCHEDULED)

    assert waiting is not None
    assert waiting.reason is Reason.INSUFFICIENT_RESOURCES
    assert "1046.0 GiB of memory" in waiting.message
    assert "256.0 GiB of memory free" in waiting.message
    assert found.manifests() == ()


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_one_number_is_for_the_whole_pod(tensor: int) -> None:
    """LMCache/LMCache#2901: 50 GB for each of 8 ranks were 400 GB."""
    spec = catalog_spec(
        "flint",
        model={"checkpoint": "NVFP4"},
        placement={"parallelism": {"tensor": tensor}},
        cache={"hostMemory": "50Gi"},
    )
    plan = planned(Cluster(nodes=h200(1)).apply(spec))

    (connector,) = (a for a in plan.argv if a.startswith("--kv-transfer-config="))
    assert f'"cpu_bytes_to_use":{50 * GIB},' in connector
    assert plan.host_tier is not None
    assert plan.host_tier.bytes == 50 * GIB
    assert [i.bytes for i in plan.pod.memory_items if i.item == HOST_TIER] == [50 * GIB]


def test_one_number_is_divided_over_the_engines_of_a_pod() -> None:
    """kserve/kserve#6086: data ranks multiply it, as each of them is an engine."""
    spec = catalog_spec(
        "inkling",
        placement={"parallelism": {"tensor": 4, "data": 4, "expert": True}},
        cache={"hostMemory": "200Gi"},
    )
    plan = planned(Cluster(nodes=h200(2)).apply(spec))

    (connector,) = (a for a in plan.argv if a.startswith("--kv-transfer-config="))
    assert f'"cpu_bytes_to_use":{100 * GIB},' in connector
    assert plan.pod.shared_memory > 200 * GIB


def test_the_tier_is_bounded_and_evicts() -> None:
    """vllm-project/production-stack#923: a cache that never evicts is killed every hour."""
    plan = planned(Cluster(nodes=h200(1)).apply(catalog_spec("flint")))

    (connector,) = (a for a in plan.argv if a.startswith("--kv-transfer-config="))
    assert '"eviction_policy":"lru"' in connector
    assert plan.host_tier is not None
    assert 0 < plan.host_tier.bytes < 256 * GIB


def test_every_pod_of_a_group_requests_its_own_gpus() -> None:
    found = Cluster(nodes=h200(2)).apply(catalog_spec("inkling"))

    (group,) = (m for m in found.manifests(KEY) if m["kind"] == "LeaderWorkerSet")
    template = group["spec"]["leaderWorkerTemplate"]
    for name in ("leaderTemplate", "workerTemplate"):
        (container,) = template[name]["spec"]["containers"]
        assert container["resources"]["limits"][GPU_RESOURCE] == "8"
    assert template["size"] == 2
