"""What a model waits for: the number, the nearest node, who has it, and the fix."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.builders import (
    GIB,
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    foreign_pod,
    gpu_node,
    tiny_spec,
)

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ClaimView, DeviceHold, NodeUse, NodeView
from kindling_operator.model.plan import Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan import plan
from kindling_operator.plan.devices import gpu_class
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.room import Demand, room_of
from kindling_operator.plan.shortfall import replica_shortfall
from kindling_operator.plan.silent import unplannable

A = Key("ml", "a")
FLINT = catalog_spec("flint")
H200 = gpu_class(gpu_node("x"))


def waits(snapshot: Snapshot, key: Key = A) -> Verdict:
    found = plan(snapshot, key).verdict(ConditionType.SCHEDULED)
    assert found is not None
    return found


def cluster(*nodes: NodeView, spec: Any = FLINT) -> Cluster:
    return Cluster(nodes=nodes).apply(spec, key=A)


def used(**amounts: int) -> Mapping[str, NodeUse]:
    return {"gpu-0": NodeUse(**amounts)}


BESIDE = {
    "CPU": (
        {"cpu_millis": 190_000},
        "Needs 1 x NVIDIA-H200 and 4 CPU in one node; best node gpu-0 has 2 CPU free beside the"
        " requests of its pods: free 2 CPU or add a node.",
    ),
    "places for pods": (
        {"pods": 110},
        "Needs 1 x NVIDIA-H200 and room for 1 more pod in one node; best node gpu-0 has room for 0"
        " more pods free beside the requests of its pods: free room for 1 more pod or add a node.",
    ),
}


@pytest.mark.parametrize(("taken", "message"), BESIDE.values(), ids=BESIDE.keys())
def test_a_node_with_free_gpus_whose_other_pods_leave_too_little(
    taken: dict[str, int], message: str
) -> None:
    found = cluster(gpu_node("gpu-0", pods=110)).snapshot()

    verdict = waits(replace(found, used=used(**taken)))

    assert (verdict.reason, verdict.message) == (Reason.INSUFFICIENT_RESOURCES, message)


def test_a_pod_on_cpu_waits_for_what_others_take() -> None:
    found = cluster(cpu_node("gpu-0"), spec=tiny_spec()).snapshot()

    verdict = waits(replace(found, used=used(memory=22 * GIB)))

    assert verdict.reason is Reason.INSUFFICIENT_RESOURCES
    assert "best node gpu-0 has 2.0 GiB of memory free beside the requests of its pods" in (
        verdict.message
    )


def test_a_claim_of_dynamic_resource_allocation_is_named_as_a_holder() -> None:
    found = cluster(gpu_node("gpu-0", gpus=1)).snapshot()
    hold = DeviceHold("ml", "training-0", "gpu-0", 1)

    assert (
        "0 of 1 free, 1 held by ml/training-0"
        in waits(replace(found, device_holds=(hold,))).message
    )


@pytest.mark.parametrize(
    ("named", "held"),
    [(False, "1 held by ml/job, 7 held in other namespaces"), (True, "7 held by other/training")],
)
def test_other_namespaces_are_named_only_where_that_is_allowed(named: bool, held: str) -> None:
    found = cluster(gpu_node("gpu-0"))
    found.environment = environment(name_foreign_holders=named)
    found.pods = (
        foreign_pod("gpu-0", gpus=7),
        foreign_pod("gpu-0", gpus=1, name="job", namespace="ml"),
    )

    message = waits(found.snapshot()).message

    assert held in message
    assert named or "training" not in message


def test_a_model_that_waits_is_told_who_behind_it_passes() -> None:
    """It waits for a whole node; a smaller one of the same kind fits meanwhile."""
    whole = catalog_spec("flint", placement={"parallelism": {"tensor": 8}})
    found = cluster(gpu_node("gpu-0"), spec=whole)
    found.pods = (foreign_pod("gpu-0", gpus=2),)
    found.claims += (ClaimView("web", "weights", "Bound", terminating=False),)
    found.apply(FLINT, key=Key("ml", "b"), age=timedelta(minutes=2))
    found.apply(FLINT, key=Key("web", "c"), age=timedelta(minutes=1))

    snapshot = found.snapshot()
    decision = plan(snapshot, A)

    verdict = decision.verdict(ConditionType.SCHEDULED)
    assert verdict is not None
    assert verdict.reason is Reason.INSUFFICIENT_GPU
    assert verdict.message.endswith(
        "; 2 models behind it (ml/b) that need less get such GPUs meanwhile: free 2 or add a node."
    )


def test_a_group_says_how_many_nodes_have_room() -> None:
    nodes = [gpu_node(f"n{i}", gpus=4, clique="x" if i < 2 else "y") for i in range(5)]
    fleet = fleet_of(nodes)
    room = room_of(fleet, [foreign_pod("n4", gpus=1)])
    (pool,) = fleet.pools(None)
    demand = Demand(H200, gpus_per_node=4, nodes=4, cpu_millis=4000, memory=GIB)

    apart = replica_shortfall(A, replace(demand, nodes=5), pool, room, show_foreign=False)
    together = replica_shortfall(
        A, replace(demand, one_clique=True), pool, room, show_foreign=False
    )

    assert apart.message.endswith("4 of 5 have that: free 1 more or add nodes.")
    assert "Needs 4 nodes of one NVLink domain with 4 x NVIDIA-H200" in together.message
    assert together.message.endswith("2 of one have that: free 2 more or add nodes.")


SILENT = {
    "a node of GKE without the discovery": (
        gpu_node(
            "gke-0",
            labels={},
            gpu_product="",
            gpu_memory=0,
            gpu_hint="cloud.google.com/gke-accelerator=nvidia-h100-80gb",
        ),
        "node gke-0 lacks nvidia.com/gpu.compute.major, nvidia.com/gpu.memory,"
        " nvidia.com/gpu.product, where cloud.google.com/gke-accelerator=nvidia-h100-80gb (run"
        " NVIDIA's GPU feature discovery there, or set the labels)",
    ),
    "GPUs behind claims alone": (
        cpu_node("dra-0", claim_gpus=8),
        "8 GPUs of node dra-0 are handed out by ResourceClaims alone (set extendedResourceName:"
        " nvidia.com/gpu in DeviceClass gpu.nvidia.com, or run NVIDIA's device plugin there)",
    ),
}


@pytest.mark.parametrize(("node", "text"), SILENT.values(), ids=SILENT.keys())
def test_nodes_whose_gpus_nobody_can_plan_with(node: NodeView, text: str) -> None:
    assert list(unplannable(fleet_of([node]))) == [text]

    refused = cluster(node).decide(A).refused
    assert refused is not None
    assert text in refused.message
