"""Which nodes count, and what their GPUs are."""

from dataclasses import replace

import msgspec
import pytest
from tests.support.builders import cpu_node, gpu_node, tainted

from kindling_operator.model.api_placement import Placement
from kindling_operator.model.objects import NodeView
from kindling_operator.plan.devices import gpu_class
from kindling_operator.plan.fleet import fleet_of

NODE = gpu_node("gpu-0", labels={**gpu_node("gpu-0").labels, "pool": "serving"})


def placement(**fields: object) -> Placement:
    return msgspec.convert(fields, Placement)


USABLE = {
    "a plain node": (NODE, placement()),
    "a node with the wanted label": (NODE, placement(nodeSelector={"pool": "serving"})),
    "a GPU node that keeps others off": (tainted(NODE, "nvidia.com/gpu"), placement()),
    "a taint that only prefers": (tainted(NODE, "a", effect="PreferNoSchedule"), placement()),
    "a taint that is tolerated by key": (
        tainted(NODE, "team", value="ml"),
        placement(tolerations=[{"key": "team", "operator": "Exists"}]),
    ),
    "a taint that is tolerated by value": (
        tainted(NODE, "team", value="ml"),
        placement(tolerations=[{"key": "team", "value": "ml", "effect": "NoSchedule"}]),
    ),
    "a taint that is tolerated with all others": (
        tainted(NODE, "team", effect="NoExecute"),
        placement(tolerations=[{"operator": "Exists"}]),
    ),
}
UNUSABLE = {
    "a node that is not ready": (replace(NODE, ready=False), placement()),
    "a cordoned node": (replace(NODE, unschedulable=True), placement()),
    "a node with another label": (NODE, placement(nodeSelector={"pool": "training"})),
    "a taint": (tainted(NODE, "team"), placement()),
    "a taint that evicts": (tainted(NODE, "team", effect="NoExecute"), placement()),
    "a taint of another value": (
        tainted(NODE, "team", value="ml"),
        placement(tolerations=[{"key": "team", "value": "web"}]),
    ),
    "a taint of another effect": (
        tainted(NODE, "team", effect="NoExecute"),
        placement(tolerations=[{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]),
    ),
    "a toleration without key and operator": (
        tainted(NODE, "team"),
        placement(tolerations=[{"value": ""}]),
    ),
}


@pytest.mark.parametrize(("node", "wanted"), USABLE.values(), ids=USABLE.keys())
def test_usable(node: NodeView, wanted: Placement) -> None:
    assert fleet_of([node]).usable(wanted, gpu=True).nodes == (node,)


@pytest.mark.parametrize(("node", "wanted"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_unusable(node: NodeView, wanted: Placement) -> None:
    assert fleet_of([node]).usable(wanted, gpu=True).nodes == ()


def test_a_pod_without_gpu_stays_off_gpu_nodes() -> None:
    fleet = fleet_of([tainted(NODE, "nvidia.com/gpu")])

    assert fleet.usable(None, gpu=False).nodes == ()


@pytest.mark.parametrize(
    "silent",
    [
        cpu_node(),
        replace(NODE, gpu_product=""),
        replace(NODE, gpu_memory=0),
        replace(NODE, labels={}),
        replace(NODE, labels={"nvidia.com/gpu.compute.major": "nine"}),
    ],
    ids=["no GPU", "no product", "no memory", "no capability", "nonsense"],
)
def test_a_node_that_does_not_say_what_it_has_has_no_class(silent: NodeView) -> None:
    assert gpu_class(silent) is None


def test_classes_are_sorted_and_unique() -> None:
    nodes = [gpu_node("c"), gpu_node("a"), gpu_node("b", "NVIDIA-B200")]

    classes = [pool.gpu for pool in fleet_of(nodes).pools(None) if pool.gpu is not None]
    found = [(each.product, each.capability) for each in classes]

    assert found == [("NVIDIA-B200", "sm100"), ("NVIDIA-H200", "sm90")]
