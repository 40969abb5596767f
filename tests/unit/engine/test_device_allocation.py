"""GPUs of dynamic resource allocation: what slices publish, who has them, how a pod gets them."""

from typing import Any

import msgspec
from tests.support.builders import cpu_node, gpu_node

from kindling_operator.model.objects import DeviceHold
from kindling_operator.observe.devices import Allocations, Classes, Slices, with_devices
from kindling_operator.plan.devices import gpu_class

MIB = 1 << 20


def device(name: str, kind: str = "gpu") -> dict[str, Any]:
    """As NVIDIA's driver publishes it."""
    return {
        "name": name,
        "attributes": {
            "type": {"string": kind},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.105.8"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def slice_of(node: str = "dra-0", *names: str, driver: str = "gpu.nvidia.com") -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": f"{node}-x", "uid": f"slice-{node}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [*(device(name) for name in names), device("mig-0", "mig")],
            },
        }
    )


def claim(uid: str, *devices: str, user: str = "", **annotations: str) -> bytes:
    results = [
        {"driver": "gpu.nvidia.com", "pool": "dra-0", "device": each, "request": "gpu"}
        for each in devices
    ]
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"claim-{uid}",
                "namespace": "other",
                "uid": uid,
                "annotations": annotations,
            },
            "status": {
                **({"allocation": {"devices": {"results": results}}} if devices else {}),
                **({"reservedFor": [{"resource": "pods", "name": user}]} if user else {}),
            },
        }
    )


def device_class(uid: str, resource: str = "") -> bytes:
    spec = {"extendedResourceName": resource} if resource else {}
    return msgspec.json.encode({"metadata": {"name": uid, "uid": uid}, "spec": spec})


def slices(*names: str) -> Slices:
    found = Slices()
    assert found.put(slice_of("dra-0", *names))
    return found


def test_gpus_behind_a_claim_are_none_that_a_pod_can_ask_for() -> None:
    (found,) = with_devices([cpu_node("dra-0")], slices("gpu-0", "gpu-1").devices, mapped=False)

    assert (found.gpus, found.claim_gpus) == (0, 2)
    assert gpu_class(found) is None


def test_where_a_device_class_maps_the_resource_they_are_gpus() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    bare = cpu_node("dra-0", gpu_product="NVIDIA-H100-80GB-HBM3", labels=labels)
    (found,) = with_devices([bare], slices("gpu-0", "gpu-1").devices, mapped=True)

    assert (found.gpus, found.claim_gpus) == (2, 0)
    known = gpu_class(found)
    assert known is not None
    assert (known.product, known.capability) == ("NVIDIA-H100-80GB-HBM3", "sm90")
    assert (known.memory, known.driver) == (81559 * MIB, 580)


def test_a_product_that_only_the_slice_knows_is_a_hint() -> None:
    """A pod finds its nodes by label, and this node has none."""
    (found,) = with_devices([cpu_node("dra-0")], slices("gpu-0").devices, mapped=True)

    assert found.gpu_hint == "its ResourceSlice says NVIDIA H100 80GB HBM3"


def test_what_a_label_says_stands() -> None:
    found = with_devices([gpu_node("dra-0")], slices("gpu-0").devices, mapped=False)

    assert [(node.gpus, node.claim_gpus) for node in found] == [(8, 0)]
    assert found[0].gpu_memory == gpu_node("x").gpu_memory


def test_slices_of_other_drivers_and_those_that_go_count_for_nothing() -> None:
    found = slices("gpu-0")

    assert not found.put(slice_of("net-0", "nic-0", driver="net.example.com"))
    assert found.drop(slice_of("dra-0"))
    assert found.devices == ()


def test_an_allocated_claim_holds_its_gpus_in_the_name_of_its_pod() -> None:
    found, published = Allocations(), slices("gpu-0", "gpu-1", "gpu-2").devices
    assert found.put(claim("a", "gpu-0", "gpu-1", user="training-0"))
    assert found.put(claim("b", "gpu-2"))
    assert not found.put(claim("pending"))

    assert found.held(published) == (
        DeviceHold("other", "claim-b", "dra-0", 1),
        DeviceHold("other", "training-0", "dra-0", 2),
    )
    assert found.put(claim("a"))
    assert [hold.name for hold in found.held(published)] == ["claim-b"]


def test_a_claim_that_the_scheduler_made_for_a_pod_counts_with_the_pod() -> None:
    found = Allocations()
    mark = {"resource.kubernetes.io/extended-resource-claim": "true"}

    assert not found.put(claim("a", "gpu-0", **mark))
    assert found.held(slices("gpu-0").devices) == ()


def test_a_class_maps_while_it_names_the_resource() -> None:
    found = Classes()
    assert not found.put(device_class("plain"))
    assert found.put(device_class("mapped", "nvidia.com/gpu"))
    assert found.mapped

    assert found.drop(device_class("mapped"))
    assert not found.mapped
