"""Status goes onto the wire as docs and dashboards expect it."""

from kindling_operator.model.status import (
    Basis,
    CacheStatus,
    GpuStatus,
    HitRate,
    InferenceModelStatus,
    KVCacheStatus,
    MemoryItem,
    ParallelismStatus,
    PlanStatus,
    RejectedOption,
    StoreState,
    StoreStatus,
)

PLAN = PlanStatus(
    digest="9c41",
    revision="inkling-5d7f",
    summary="8x NVIDIA-B200 in one node, NVFP4, TP8",
    checkpoint="NVFP4",
    gpu=GpuStatus(product="NVIDIA-B200", architecture="amd64", per_replica=8),
    parallelism=ParallelismStatus(tensor=8),
    context_length=262144,
    kv_cache=KVCacheStatus(
        blocks=1000, blocks_per_request=37, tokens=7_000_000, full_context_requests="27.0"
    ),
    memory_per_gpu=(MemoryItem(item="Weights", bytes=0, basis=Basis.MEASURED),),
    rejected=(RejectedOption(option="BF16 TP8", reason="WeightsDoNotFit", message="short"),),
    rejected_total=1,
)


def test_a_plan_has_the_names_of_the_api() -> None:
    assert InferenceModelStatus(observed_generation=3, plan=PLAN).to_wire() == {
        "observedGeneration": 3,
        "plan": {
            "digest": "9c41",
            "revision": "inkling-5d7f",
            "summary": "8x NVIDIA-B200 in one node, NVFP4, TP8",
            "checkpoint": "NVFP4",
            "gpu": {
                "product": "NVIDIA-B200",
                "architecture": "amd64",
                "perReplica": 8,
                "nodesPerReplica": 1,
            },
            "parallelism": {"tensor": 8, "pipeline": 1, "data": 1, "expert": False},
            "contextLength": 262144,
            "kvCache": {
                "blocks": 1000,
                "blocksPerRequest": 37,
                "tokens": 7_000_000,
                "fullContextRequests": "27.0",
            },
            "memoryPerGPU": [{"item": "Weights", "bytes": 0, "basis": "Measured"}],
            "rejected": [{"option": "BF16 TP8", "reason": "WeightsDoNotFit", "message": "short"}],
            "rejectedTotal": 1,
        },
    }


def test_zero_replicas_are_said_and_unknown_ones_are_not() -> None:
    wire = InferenceModelStatus(replicas=0, ready_replicas=0).to_wire()
    assert wire == {"replicas": 0, "readyReplicas": 0}


def test_cache_numbers_are_strings_with_two_digits() -> None:
    cache = CacheStatus(
        hit_rate=HitRate(total="0.75", device="0.40"),
        object_store=StoreStatus(state=StoreState.CLOSED),
    )
    assert InferenceModelStatus(cache=cache).to_wire()["cache"] == {
        "hitRate": {"total": "0.75", "device": "0.40"},
        "objectStore": {"state": "Closed"},
    }


def test_an_empty_status_is_empty() -> None:
    assert InferenceModelStatus().to_wire() == {}
