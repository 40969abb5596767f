"""A refusal for want of GPUs: where those are that the model cannot use, and the way out."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.builders import Cluster, catalog_spec, cpu_node, gpu_node, tainted

from kindling_operator.model.conditions import Reason
from kindling_operator.model.objects import NodeView

H200 = gpu_node("h200")
NEEDS = "No GPU for Flint (it needs sm90, sm100 or sm103, such as one GPU of 32 GiB for NVFP4)"
MEND = "; add a node or correct what keeps them out."
L4 = gpu_node("l4", "NVIDIA-L40S", gpu_product="NVIDIA-L4", unschedulable=True)


def bare(name: str, **labels: str) -> NodeView:
    """A node whose device plugin is down: labels, and nothing to request."""
    told = {"nvidia.com/gpu.count": "8", **labels}
    return gpu_node(name, gpus=0, labels={**H200.labels, **told})


NO_GPU = {
    "an empty cluster": ([], {}, f"{NEEDS}: no node has such a GPU; add one."),
    "GPUs that it cannot use, out of reach": (
        [L4],
        {},
        f"{NEEDS}: no node has such a GPU; add one.",
    ),
    "tainted nodes": (
        [tainted(tainted(H200, "dedicated", value="ml"), "spot", effect="NoExecute")],
        {},
        f"{NEEDS}: 8 x NVIDIA-H200 (sm90) on nodes tainted dedicated=ml:NoSchedule and"
        f" spot:NoExecute (add a toleration to spec.placement.tolerations){MEND}",
    ),
    "nodes that Kubernetes itself keeps work off": (
        [tainted(H200, "node.kubernetes.io/disk-pressure")],
        {},
        f"{NEEDS}: 8 x NVIDIA-H200 (sm90) on nodes tainted"
        f" node.kubernetes.io/disk-pressure:NoSchedule (kubectl describe node h200){MEND}",
    ),
    "taints that the spec tolerates in part": (
        [tainted(tainted(H200, "dedicated", value="ml"), "nvidia.com/gpu")],
        {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web"}]},
        f"{NEEDS}: 8 x NVIDIA-H200 (sm90) on nodes tainted dedicated=ml:NoSchedule (add a"
        f" toleration to spec.placement.tolerations){MEND}",
    ),
    "each node for a reason of its own, most GPUs first": (
        [
            replace(H200, name="a", unschedulable=True),
            replace(H200, name="b", unschedulable=True),
            gpu_node("c", "NVIDIA-B200", unschedulable=True),
            tainted(replace(H200, name="d", gpus=4), "team"),
            replace(H200, name="e", gpus=2, ready=False),
            replace(H200, name="f", gpus=1, ready=False, unschedulable=True),
        ],
        {},
        f"{NEEDS}: 8 x NVIDIA-B200 (sm100), 16 x NVIDIA-H200 (sm90) on cordoned nodes (kubectl"
        " uncordon a), 4 x NVIDIA-H200 (sm90) on nodes tainted team:NoSchedule (add a toleration to"
        " spec.placement.tolerations), 3 x NVIDIA-H200 (sm90) on nodes that are not ready (kubectl"
        f" describe node e){MEND}",
    ),
    "nodes without the labels that are asked for": (
        [H200],
        {"nodeSelector": {"pool": "gpu-west"}},
        f"{NEEDS} within spec.placement.nodeSelector pool=gpu-west: 8 x NVIDIA-H200 (sm90) not"
        f" matched by spec.placement.nodeSelector (correct it, or label the nodes){MEND}",
    ),
    "GPUs without labels": (
        [replace(H200, labels={})],
        {},
        f"{NEEDS}: node h200 lacks nvidia.com/gpu.compute.major (run NVIDIA's GPU feature discovery"
        f" there, or set the labels){MEND}",
    ),
    "labels without GPUs": (
        [bare("gpu-0"), bare("gpu-1")],
        {},
        f"{NEEDS}: 2 nodes (gpu-0, ...) offer no nvidia.com/gpu, though their labels say 16 x"
        " NVIDIA-H200 (run NVIDIA's device plugin there, or see why it fails with kubectl describe"
        f" node gpu-0){MEND}",
    ),
    "a cloud's label without GPUs": (
        [cpu_node("gke-0", gpu_hint="cloud.google.com/gke-accelerator=nvidia-h100-80gb")],
        {},
        f"{NEEDS}: node gke-0 offers no nvidia.com/gpu, though its labels say"
        " cloud.google.com/gke-accelerator=nvidia-h100-80gb (run NVIDIA's device plugin there, or"
        f" see why it fails with kubectl describe node gke-0){MEND}",
    ),
    "GPUs that are cut up under names of their own": (
        [bare("mig-0", **{"nvidia.com/mig-3g.71gb.count": "16"})],
        {},
        f"{NEEDS}: node mig-0 offers MIG slices by profile alone, nvidia.com/mig-3g.71gb (choose"
        f" MIG strategy single, or switch MIG off){MEND}",
    ),
    "a spec that excludes them all": (
        [H200],
        {"gpu": {"products": ["NVIDIA-B200"], "minMemory": "150Gi"}},
        f"{NEEDS} within spec.placement.gpu.products NVIDIA-B200 and spec.placement.gpu.minMemory"
        f" 150Gi: the usable nodes have 8 x NVIDIA-H200 (sm90){MEND}",
    ),
    "an unverified GPU that is pinned, on a cordoned node": (
        [gpu_node("rtx", "NVIDIA-RTX-PRO-6000", gpus=1, unschedulable=True), tainted(H200, "team")],
        {"gpu": {"products": ["NVIDIA-RTX-PRO-6000"]}},
        f"{NEEDS} within spec.placement.gpu.products NVIDIA-RTX-PRO-6000: 1 x NVIDIA-RTX-PRO-6000"
        f" (sm120) on cordoned nodes (kubectl uncordon rtx){MEND}",
    ),
}


@pytest.mark.parametrize(("nodes", "placement", "message"), NO_GPU.values(), ids=NO_GPU.keys())
def test_no_gpu(nodes: list[Any], placement: dict[str, Any], message: str) -> None:
    spec = catalog_spec("flint", placement=placement)
    refused = Cluster(nodes=tuple(nodes)).apply(spec).decide().refused

    assert refused is not None
    assert (refused.reason, refused.message) == (Reason.NO_SUPPORTED_GPU, message)


LONG = f"{'k' * 60}.{'d' * 60}.{'d' * 60}.{'d' * 60}/{'n' * 60}"
"""A key of a label or a taint, as long as Kubernetes lets it be."""


@pytest.mark.parametrize("selector", [{}, {f"{n}{LONG}": "v" * 60 for n in range(5)}])
def test_many_reasons_with_long_names_leave_the_fix_in_the_message(selector: Any) -> None:
    nodes = tuple(
        tainted(gpu_node(f"n{number}", labels={**H200.labels, **selector}), f"{number}{LONG}")
        for number in range(9)
    )
    spec = catalog_spec("flint", placement={"nodeSelector": selector})

    refused = Cluster(nodes=nodes).apply(spec).decide().refused

    assert refused is not None
    assert " (add a toleration to spec.placement.tolerations) and " in refused.message
    assert refused.message.endswith(f" more{MEND}")
