"""What nodes of real clusters say of their GPUs, and what is made of it."""

from typing import Any

import pytest

from kindling_operator.model.objects import GpuShare, NodeView
from kindling_operator.observe.nodes import node
from kindling_operator.plan.devices import gpu_class

H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "single",
}


def seen(labels: dict[str, str], *, gpus: str = "8", **allocatable: str) -> NodeView:
    """A ready node with these labels."""
    resources = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": gpus, **allocatable}
    body: dict[str, Any] = {
        "metadata": {"name": "gpu-0", "labels": labels},
        "status": {
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": "amd64"},
        },
    }
    return node(body)


def test_whole_gpus_as_the_discovery_labels_them() -> None:
    found = seen({**H100, "nvidia.com/gpu.clique": "7b968a6d.1"}, pods="110")

    assert (found.gpus, found.gpu_product) == (8, "NVIDIA-H100-80GB-HBM3")
    assert (found.gpu_memory, found.compute) == (81559 << 20, "9.0")
    assert (found.clique, found.pods, found.share) == ("7b968a6d.1", 110, GpuShare.WHOLE)


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/cuda.driver-version.full": "580.65.06"},
        {
            "nvidia.com/cuda.driver-version.major": "580",
            "nvidia.com/cuda.driver-version.minor": "65",
            "nvidia.com/cuda.driver-version.revision": "06",
        },
        {
            "nvidia.com/cuda.driver.major": "580",
            "nvidia.com/cuda.driver.minor": "65",
            "nvidia.com/cuda.driver.rev": "06",
        },
    ],
    ids=["in one", "in parts", "as older releases spell it"],
)
def test_the_driver(labels: dict[str, str]) -> None:
    found = seen({**H100, **labels})

    assert found.driver == "580.65.06"
    assert (known := gpu_class(found)) is not None
    assert known.driver == 580


SHARED = {
    "the single MIG strategy": (
        GpuShare.SLICE,
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
            "nvidia.com/gpu.memory": "40320",
        },
    ),
    "partitions by GKE": (
        GpuShare.SLICE,
        {"cloud.google.com/gke-gpu-partition-size": "3g.40gb"},
    ),
    "time-slicing": (
        GpuShare.TIME,
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        },
    ),
    "MPS": (
        GpuShare.TIME,
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"},
    ),
    "sharing by GKE": (
        GpuShare.TIME,
        {
            "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
            "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
        },
    ),
    "shared slices": (
        GpuShare.TIME,
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb-SHARED",
            "nvidia.com/gpu.replicas": "2",
        },
    ),
    "no sharing, said": (
        GpuShare.WHOLE,
        {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"},
    ),
}


@pytest.mark.parametrize(("share", "labels"), SHARED.values(), ids=SHARED.keys())
def test_a_slice_or_a_share_is_no_whole_gpu(share: GpuShare, labels: dict[str, str]) -> None:
    found = seen({**H100, **labels})

    assert found.share is share
    assert (known := gpu_class(found)) is not None
    assert known.share is share


def test_of_mixed_mig_only_the_whole_gpus_count() -> None:
    labels = {**H100, "nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-3g.40gb.count": "2"}
    found = seen(labels, gpus="7", **{"nvidia.com/mig-3g.40gb": "2"})

    assert (found.gpus, found.share) == (7, GpuShare.WHOLE)


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb"),
        ("karpenter.k8s.aws/instance-gpu-name", "h100"),
        ("kubernetes.azure.com/accelerator", "nvidia"),
    ],
)
def test_where_only_the_cloud_says_something_there_is_a_hint_and_no_class(
    label: str, value: str
) -> None:
    found = seen({label: value})

    assert (found.gpus, found.gpu_product, found.gpu_hint) == (8, "", f"{label}={value}")
    assert gpu_class(found) is None
    assert seen({**H100, label: value}).gpu_hint == ""


def test_instance_type_and_zone_under_their_present_and_former_labels() -> None:
    present = seen(
        {
            "node.kubernetes.io/instance-type": "p5.48xlarge",
            "topology.kubernetes.io/zone": "us-east-1a",
        }
    )
    former = seen(
        {
            "beta.kubernetes.io/instance-type": "p5.48xlarge",
            "failure-domain.beta.kubernetes.io/zone": "us-east-1a",
        }
    )

    assert (present.instance_type, present.zone) == ("p5.48xlarge", "us-east-1a")
    assert (former.instance_type, former.zone) == (present.instance_type, present.zone)
