"""The examples in the table of reasons are what the planner says, not what somebody typed."""

from collections.abc import Callable

import pytest
from tests.support.builders import (
    GIB,
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    foreign_pod,
    gpu_node,
    tainted,
    tiny_architecture,
    tiny_spec,
)

from kindling_operator.model.conditions import Reason
from kindling_operator.model.conditions_table import REASONS
from kindling_operator.model.names import Key
from kindling_operator.model.plan import Decision

FLINT = Key("ml", "flint")
H200 = gpu_node("gpu-7")


def decided(found: Cluster, spec: object, key: Key = FLINT) -> Decision:
    return found.apply(spec, key=key).decide(key)  # type: ignore[arg-type]


def flint(*nodes: object, pods: object = (), **spec: object) -> Decision:
    return decided(Cluster(nodes=nodes, pods=pods), catalog_spec("flint", **spec))  # type: ignore[arg-type]


def served_flint(node: object) -> Cluster:
    """One GPU, and Flint serves on it."""
    found = Cluster(nodes=(node,)).apply(catalog_spec("flint"), key=FLINT)  # type: ignore[arg-type]
    made = found.step(FLINT).current
    assert made is not None
    found.serve(made.hash, key=FLINT, node="gpu-7", gpus=1).step(FLINT)
    return found


def waiting_for_capacity() -> Decision:
    found = served_flint(gpu_node("gpu-7", gpus=1))
    return decided(found, catalog_spec("flint", serving={"contextLength": 32_768}))


def better() -> Decision:
    found = served_flint(H200)
    found.nodes = (H200, gpu_node("gpu-8", "NVIDIA-B200"))
    return found.decide(FLINT)


def overdue() -> Decision:
    found = Cluster(nodes=(H200,)).apply(catalog_spec("flint"), key=FLINT)
    made = found.step(FLINT).current
    assert made is not None
    found.start(made.hash, key=FLINT, node="gpu-7", gpus=1)
    return found.later(minutes=46).step(FLINT)


CASES: dict[Reason, Callable[[], Decision]] = {
    Reason.SPEC_ACCEPTED: lambda: flint(H200),
    Reason.UNVERIFIED: lambda: flint(
        gpu_node("desk", "NVIDIA-RTX-PRO-6000"),
        placement={"gpu": {"products": ["NVIDIA-RTX-PRO-6000"]}},
    ),
    Reason.UNKNOWN_MODEL: lambda: decided(
        Cluster(environment=environment(catalog={"flint": environment().catalog["flint"]})),
        catalog_spec("inkling"),
    ),
    Reason.INVALID_ARCHITECTURE: lambda: decided(
        Cluster(), tiny_spec(tiny_architecture(checkpoints=[{"name": "BF16", "bytes": 6}]))
    ),
    Reason.NOT_YET_SUPPORTED: lambda: flint(H200, scaling={"maxReplicas": 8}),
    Reason.FORBIDDEN_ARGUMENT: lambda: flint(H200, serving={"extraArgs": ["--max-model-len=9"]}),
    Reason.UNSUPPORTED_CHECKPOINT: lambda: decided(
        Cluster(), {"model": {**tiny_spec()["model"], "checkpoint": "NVFP4"}}
    ),
    Reason.BROKEN_COMBINATION: lambda: flint(gpu_node("lab", "NVIDIA-L40S")),
    Reason.NO_SUPPORTED_GPU: lambda: flint(tainted(H200, "team")),
    Reason.WEIGHTS_DO_NOT_FIT: lambda: flint(
        gpu_node("gpu-7", "NVIDIA-H100-80GB-HBM3", gpus=1), model={"checkpoint": "BF16"}
    ),
    Reason.CONTEXT_DOES_NOT_FIT: lambda: flint(
        H200,
        model={"checkpoint": "BF16"},
        serving={"contextLength": 262_144, "concurrency": 8},
        placement={"maxGpusPerReplica": 1},
    ),
    Reason.CONTEXT_TOO_LONG: lambda: flint(H200, serving={"contextLength": 524_288}),
    Reason.INSUFFICIENT_GPU: lambda: flint(
        H200, pods=(foreign_pod("gpu-7", gpus=8, name="training", namespace="ml"),)
    ),
    Reason.INSUFFICIENT_RESOURCES: lambda: decided(
        Cluster(nodes=(cpu_node("one", memory=3 * GIB),)), tiny_spec()
    ),
    Reason.NO_MATCHING_NODE: lambda: decided(
        Cluster(), tiny_spec(placement={"nodeSelector": {"pool": "gpu-west"}})
    ),
    Reason.WAITING_FOR_CAPACITY: waiting_for_capacity,
    Reason.CLAIM_NOT_BOUND: lambda: decided(
        Cluster(nodes=(H200,), claims=()), catalog_spec("flint")
    ),
    Reason.BETTER_PLAN_AVAILABLE: better,
    Reason.DEADLINE_EXCEEDED: overdue,
}


@pytest.mark.parametrize("reason", CASES)
def test_the_example_is_what_the_planner_says(reason: Reason) -> None:
    decision = CASES[reason]()
    said = {v.reason: v.message for v in (*decision.verdicts, decision.better) if v is not None}

    assert said[reason] == REASONS[reason].example
