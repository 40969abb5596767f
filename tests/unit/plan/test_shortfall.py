"""What a model waits for: the number, the nearest node, who has it, and the fix."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
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
from tests.support.onenode import ROOT

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ClaimView, DeviceHold, NodeUse, NodeView
from kindling_operator.model.plan import Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.nodes import node as node_view
from kindling_operator.plan import plan
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.silent import unplannable

A = Key("ml", "a")
FLINT = catalog_spec("flint")
RACK = catalog_spec(
    "inkling", model={"checkpoint": "NVFP4"}, placement={"parallelism": {"tensor": 8}}
)
"""A replica of two nodes of four GPUs in one NVLink domain."""


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


FREED = re.compile(r"free ([0-9.]+) GiB of memory or add a node\.$")


@pytest.mark.parametrize(
    ("asked", "missing"), [({}, "7.0"), ({"cache": {"hostMemory": "48Gi"}}, "55.0")]
)
def test_the_memory_to_free_is_what_lets_the_model_start(
    asked: Mapping[str, Any], missing: str
) -> None:
    """A KV tier in host memory that nobody asked for is given up for it, one that is asked for is
    not; as much as the message says is enough, and nothing less."""
    spec = {**FLINT, **asked}
    memory = gpu_node("gpu-0").memory
    found = cluster(gpu_node("gpu-0"), spec=spec).snapshot()
    full = memory - 15 * GIB

    message = waits(replace(found, used=used(memory=full))).message

    told = FREED.search(message)
    assert told is not None, message
    assert told[1] == missing
    freed = int(float(told[1]) * GIB)
    assert plan(replace(found, used=used(memory=full - freed)), A).targets
    assert not plan(replace(found, used=used(memory=full - freed + GIB // 10)), A).targets


def test_the_memory_of_a_group_is_what_lets_it_start() -> None:
    """The nodes of a group have room for it without the tier that nobody asked for."""
    nodes = [gpu_node(f"n{number}", gpus=4, clique="x") for number in range(2)]
    full = {node.name: NodeUse(memory=node.memory - GIB) for node in nodes}
    found = cluster(*nodes, spec=RACK).snapshot()

    verdict = waits(replace(found, used=full))

    assert verdict.reason is Reason.INSUFFICIENT_RESOURCES
    told = re.search(r"and ([0-9.]+) GiB of memory free each; 0 of one have that", verdict.message)
    assert told is not None, verdict.message
    left = int((float(told[1]) + 0.1) * GIB)
    roomy = {node.name: NodeUse(memory=node.memory - left) for node in nodes}
    assert plan(replace(found, used=roomy), A).targets


DOWNLOADED = {"weights": {"uri": "hf://org/model"}}


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        (
            "eks-p5",
            "ip-10-0-24-21.us-west-2.compute.internal",
            "ip-10-0-24-22.us-west-2.compute.internal",
        ),
        ("aks-nd", "aks-ndh200-17365924-vmss000000", "aks-ndh200-17365924-vmss000001"),
    ],
)
def test_a_group_whose_nodes_lack_disk_for_the_download_names_it(
    name: str, first: str, second: str
) -> None:
    """Their CPU, memory and GPUs are all free: none of them is named, and nothing can be freed."""
    listed = yaml.safe_load((ROOT / f"docs/examples/nodes/{name}.yaml").read_text())
    nodes = [node_view(body) for body in listed["items"]]

    verdict = waits(cluster(*nodes, spec=catalog_spec("inkling", model=DOWNLOADED)).snapshot())

    assert (verdict.reason, verdict.message) == (
        Reason.INSUFFICIENT_RESOURCES,
        "Needs 2 nodes with 8 x NVIDIA-H200 and 1864.6 GiB of ephemeral storage free each; 0 of 2"
        f" have that, next best {first} with 920.0 GiB of ephemeral storage, {second} with 920.0"
        " GiB of ephemeral storage: set spec.model.weights.cacheClaim or a pvc:// URI, or add"
        " nodes.",
    )
    cached = {"weights": {"uri": "hf://org/model", "cacheClaim": "weights"}}
    assert cluster(*nodes, spec=catalog_spec("inkling", model=cached)).decide(A).targets


@pytest.mark.parametrize(
    ("disk", "taken", "has", "free"),
    [
        (50 * GIB, 0, "50.0", ""),
        (1000 * GIB, 990 * GIB, "10.0", "free 70.0 GiB of ephemeral storage or "),
    ],
    ids=["too small", "full"],
)
def test_a_node_that_lacks_disk_for_the_download_names_the_claim(
    disk: int, taken: int, has: str, free: str
) -> None:
    """It says what to free only where that would do."""
    spec = catalog_spec("flint", model={**DOWNLOADED, "checkpoint": "BF16"})
    found = cluster(gpu_node("gpu-0", ephemeral=disk), spec=spec).snapshot()

    verdict = waits(replace(found, used=used(ephemeral=taken)))

    assert (verdict.reason, verdict.message) == (
        Reason.INSUFFICIENT_RESOURCES,
        "Needs 1 x NVIDIA-H200 and 80.0 GiB of ephemeral storage in one node; best node gpu-0 has"
        f" {has} GiB of ephemeral storage free beside the requests of its pods: set"
        f" spec.model.weights.cacheClaim or a pvc:// URI, or {free}add a node.",
    )


def test_a_group_says_of_each_node_what_it_lacks() -> None:
    """Memory is short on all, by different amounts: the nearest two are named, each with its."""
    nodes = [gpu_node(f"n{number}", gpus=4, clique="x") for number in range(3)]
    taken = {node.name: NodeUse(memory=node.memory - GIB * (1 + i)) for i, node in enumerate(nodes)}
    found = cluster(*nodes, spec=RACK).snapshot()

    message = waits(replace(found, used=taken)).message

    assert (
        "; 0 of one have that, next best n2 with 3.0 GiB of memory, n1 with 2.0 GiB of" in message
    )
    told = re.search(r"free ([0-9.]+) GiB of memory on each or add nodes\.$", message)
    assert told is not None, message
    more = int((float(told[1]) + 0.1) * GIB)
    enough = {name: NodeUse(memory=use.memory - more) for name, use in taken.items()}
    assert plan(replace(found, used=enough), A).targets


def test_a_group_that_waits_for_gpus_of_nodes_with_small_disks_is_told_both() -> None:
    nodes = [gpu_node(f"n{number}", ephemeral=100 * GIB) for number in range(2)]
    found = cluster(*nodes, spec=catalog_spec("inkling", model=DOWNLOADED))
    found.pods = tuple(foreign_pod(node.name, gpus=1, namespace="ml") for node in nodes)

    verdict = waits(found.snapshot())

    assert verdict.reason is Reason.INSUFFICIENT_GPU
    assert "1864.6 GiB of ephemeral storage free each; 0 of 2 have that" in verdict.message
    assert verdict.message.endswith(
        ": set spec.model.weights.cacheClaim or a pvc:// URI, or free 2 more or add nodes."
    )


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
    nodes = [gpu_node(f"n{number}", gpus=4, clique="xxy"[number]) for number in range(3)]
    found = cluster(*nodes, spec=RACK)
    found.pods = (foreign_pod("n1", gpus=1),)

    message = waits(found.snapshot()).message

    assert message.startswith("Needs 2 nodes of one NVLink domain with 4 x NVIDIA-H200, ")
    assert message.endswith(
        "; 1 of one have that, next best n1 (1 held in other namespaces): free 1 more or add nodes."
    )


@pytest.mark.parametrize(
    ("named", "held"),
    [
        (False, "1 held by ml/notebook, 2 held in other namespaces"),
        (True, "2 held by other/training, 1 held by ml/notebook"),
    ],
)
def test_a_group_that_waits_says_who_has_the_gpus_of_the_nearest_nodes(
    named: bool, held: str
) -> None:
    """Of as many nodes as are missing: those of the NVLink domain that lack the fewest GPUs."""
    cliques = ("x", "x", "x", "y", "x")
    nodes = [gpu_node(f"n{number}", gpus=4, clique=each) for number, each in enumerate(cliques)]
    found = cluster(*nodes, spec=RACK)
    found.environment = environment(name_foreign_holders=named)
    found.pods = (
        foreign_pod("n0", gpus=4, name="full", namespace="ml"),
        foreign_pod("n1", gpus=2),
        foreign_pod("n1", gpus=1, name="notebook", namespace="ml"),
        foreign_pod("n2", gpus=4, name="evaluation", namespace="ml"),
        foreign_pod("n3", gpus=1, name="elsewhere", namespace="ml"),
    )

    message = waits(found.snapshot()).message

    assert message.endswith(
        f"; 1 of one have that, next best n1 ({held}): free 1 more or add nodes."
    )


def test_a_group_without_any_room_names_nodes_of_one_domain() -> None:
    nodes = [gpu_node(f"n{number}", gpus=4, clique="xyx"[number]) for number in range(3)]
    found = cluster(*nodes, spec=RACK)
    found.pods = tuple(
        foreign_pod(f"n{n}", gpus=g, namespace="ml") for n, g in enumerate((1, 2, 3))
    )

    message = waits(found.snapshot()).message

    assert message.endswith(
        "; 0 of one have that, next best n0, n2 (4 held by ml/training): free 2 more or add nodes."
    )


@pytest.mark.parametrize("spec", [RACK, FLINT], ids=["a group", "one node"])
def test_many_holders_with_long_names_leave_the_fix_in_the_message(spec: Any) -> None:
    nodes = [gpu_node(f"n{number}", gpus=4, clique="x") for number in range(8)]
    found = cluster(*nodes, spec=spec)
    found.pods = tuple(
        foreign_pod(f"n{number % 8}", gpus=1, name=f"{'long-' * 40}{number:02}", namespace="ml")
        for number in range(32)
    )

    message = waits(found.snapshot()).message

    assert "1 held by ml/long-" in message
    assert re.search(r" and [0-9]+ more\)?: free [12]( more)? or add (nodes|a node)\.$", message)


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


def test_gpus_that_a_cordon_keeps_out_are_told_beside_the_best_node() -> None:
    """A person who reads it at night may only have forgotten to uncordon."""
    nodes = (
        gpu_node("taken", gpus=8),
        replace(gpu_node("closed", gpus=8), unschedulable=True),
        replace(gpu_node("elsewhere", gpus=8, unschedulable=True), labels={}),
    )
    spec = catalog_spec("flint", placement={"nodeSelector": {"kubernetes.io/arch": "amd64"}})
    cluster = Cluster(nodes=nodes, pods=(foreign_pod("taken", gpus=8),)).apply(spec)

    [verdict] = [v for v in cluster.decide().verdicts if v.condition is ConditionType.SCHEDULED]

    assert verdict.message == (
        "Needs 1 x NVIDIA-H200 in one node; best node taken has 0 of 8 free, 8 held in other"
        " namespaces, and there are 8 x NVIDIA-H200 (sm90) on cordoned nodes (kubectl uncordon"
        " closed): free 1 or add a node."
    )
