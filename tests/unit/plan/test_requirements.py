"""What a pod demands of its node: as much as every node says, judged as the scheduler does."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.builders import KEY, Cluster, catalog_spec, gpu_node

from kindling_operator.model.names import (
    LABEL_DRIVER,
    LABEL_GPU_MAJOR,
    LABEL_GPU_MEMORY,
    LABEL_GPU_MINOR,
    LABEL_GPU_PRODUCT,
)
from kindling_operator.model.objects import GpuShare, NodeView
from kindling_operator.model.plan import NodeOperator, NodeRequirement
from kindling_operator.plan.better import better_plan
from kindling_operator.plan.requirements import meets

ONE = gpu_node("one", gpus=1, driver="580.65.06")
MIB = ONE.gpu_memory >> 20
LEAST = {key: ONE.labels[key] for key in (LABEL_GPU_PRODUCT, LABEL_GPU_MAJOR, LABEL_GPU_MINOR)}
SILENT = replace(ONE, name="silent", labels=LEAST)


def terms(*nodes: NodeView) -> list[dict[str, tuple[str, list[str]]]]:
    """What the rendered pod of Flint asks of its node: one of these, by label."""
    manifests = Cluster(nodes=nodes).apply(catalog_spec("flint")).manifests()
    [deployment] = [each for each in manifests if each["kind"] == "Deployment"]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]
    found = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [
        {
            each["key"]: (each["operator"], each.get("values", []))
            for each in term["matchExpressions"]
        }
        for term in found
    ]


def demanded(*nodes: NodeView) -> dict[str, tuple[str, list[str]]]:
    """The same where there are no alternatives."""
    [term] = terms(*nodes)
    return term


def test_a_pod_goes_where_its_plan_holds() -> None:
    assert demanded(ONE) == {
        "kubernetes.io/arch": ("In", ["amd64"]),
        "nvidia.com/gpu.memory": ("Gt", [str(MIB - 1)]),
        "nvidia.com/cuda.driver-version.major": ("Gt", ["579"]),
        "nvidia.com/gpu.replicas": ("Lt", ["2"]),
        "nvidia.com/gpu.sharing-strategy": ("NotIn", ["mps", "time-slicing"]),
        "cloud.google.com/gke-gpu-sharing-strategy": ("NotIn", ["mps", "time-sharing"]),
        "cloud.google.com/gke-gpu-partition-size": ("DoesNotExist", []),
    }


def test_the_smallest_gpu_of_the_kind_is_enough() -> None:
    smaller = gpu_node("smaller", gpus=1, driver="580.1", gpu_memory=(MIB - 700) << 20)

    assert demanded(ONE, smaller)["nvidia.com/gpu.memory"] == ("Gt", [str(MIB - 701)])


def test_of_a_label_that_some_lack_only_its_value_is_asked() -> None:
    """A half-upgraded feature discovery: one node tells its driver by the old label, one by the
    new, and a third, which the plan does not hold on, has the new one."""
    old = replace(ONE, name="old", labels={**LEAST, "nvidia.com/cuda.driver.major": "580"})
    new = replace(ONE, name="new", labels={**LEAST, LABEL_DRIVER: "590"})
    bad = gpu_node("bad", gpus=1, driver="550.1")

    found = terms(old, new, bad)

    asked = [(term[LABEL_DRIVER], term["nvidia.com/cuda.driver.major"]) for term in found]
    ways: list[tuple[str, list[str]]] = [("Gt", ["579"]), ("DoesNotExist", [])]
    assert sorted(asked) == sorted((one, other) for one in ways for other in ways)


def test_of_a_label_that_nobody_carries_only_the_drivers_is_asked() -> None:
    found = terms(SILENT)

    assert {LABEL_GPU_MEMORY, "nvidia.com/gpu.replicas"}.isdisjoint({k for t in found for k in t})
    assert len(found) == 4


def test_the_driver_under_its_older_label() -> None:
    older = replace(ONE, labels={**LEAST, "nvidia.com/cuda.driver.major": "590"})

    assert demanded(older)["nvidia.com/cuda.driver.major"] == ("Gt", ["579"])


MATCHES = [
    (NodeOperator.IN, "8", {"label": "8"}, True),
    (NodeOperator.IN, "8", {"label": "9"}, False),
    (NodeOperator.IN, "8", {}, False),
    (NodeOperator.NOT_IN, "8", {"label": "8"}, False),
    (NodeOperator.NOT_IN, "8", {}, True),
    (NodeOperator.GT, "8", {"label": "9"}, True),
    (NodeOperator.GT, "8", {"label": "8"}, False),
    (NodeOperator.GT, "8", {"label": "80 GB"}, False),
    (NodeOperator.GT, "8", {}, False),
    (NodeOperator.LT, "8", {"label": "7"}, True),
    (NodeOperator.LT, "8", {"label": "8"}, False),
    (NodeOperator.LT, "8", {}, False),
]


@pytest.mark.parametrize(("operator", "value", "labels", "expected"), MATCHES)
def test_a_node_is_judged_as_the_scheduler_does(
    operator: NodeOperator, value: str, labels: dict[str, str], expected: bool
) -> None:
    assert meets(labels, [NodeRequirement("label", operator, (value,))]) is expected


def test_a_node_that_says_less_makes_no_better_plan() -> None:
    cluster = Cluster(nodes=(ONE,)).apply(catalog_spec("flint"))
    frozen = cluster.decide().current
    fresh = Cluster(nodes=(ONE, SILENT)).apply(catalog_spec("flint")).decide().current

    assert frozen is not None
    assert fresh is not None
    assert frozen.plan.pod.node_requirements != fresh.plan.pod.node_requirements
    assert better_plan(KEY, frozen.plan, fresh.plan) is None


def test_a_share_of_a_gpu_is_no_gpu_even_for_one() -> None:
    shared = replace(ONE, name="shared", gpus=4, share=GpuShare.TIME)
    verdict = Cluster(nodes=(shared,)).apply(catalog_spec("flint")).decide().refused

    assert verdict is not None
    assert "share each NVIDIA-H200 out in time" in verdict.message
