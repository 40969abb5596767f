"""A node's body into what placement reads: what kubelet, GPU feature discovery and clouds say.

Sources of the labels: NVIDIA's k8s-device-plugin, docs/gpu-feature-discovery/README.md (product,
memory in MiB, compute capability, driver, MIG, sharing, clique); GKE's and Karpenter's own labels
where the discovery is not installed.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from kindling_operator.kube.reflector import Raw
from kindling_operator.model import names
from kindling_operator.model.objects import GpuShare, NodeView, Taint
from kindling_operator.observe.fields import (
    Body,
    amount,
    flag,
    items,
    mapping,
    millis,
    strings,
    text,
)

# Each fact under its present label, then under those of older releases.
_DRIVER: Final = (
    ("nvidia.com/cuda.driver-version.full",),
    (
        names.LABEL_DRIVER,
        "nvidia.com/cuda.driver-version.minor",
        "nvidia.com/cuda.driver-version.revision",
    ),
    (names.LABEL_DRIVER_OLD, "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev"),
)
_INSTANCE_TYPE: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZONE: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_CLIQUE: Final = "nvidia.com/gpu.clique"
_REPLICAS: Final = (names.LABEL_GPU_REPLICAS, "cloud.google.com/gke-max-shared-clients-per-gpu")
_SHARING: Final = (names.LABEL_GPU_SHARING, names.LABEL_GKE_SHARING)
_NOT_SHARED: Final = frozenset({"", "none"})
# What the discovery adds to a product: time-slicing and MPS, single MIG strategy.
_TIME_PRODUCT: Final = "-SHARED"
_SLICE_PRODUCT: Final = "-MIG-"
_CLOUDS: Final = (
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)


class Nodes:
    """Every node's view. Bodies are JSON as the API sends them: kopf would keep each one whole, and
    a kubelet's list of images alone makes it large."""

    def __init__(self) -> None:
        self._by_uid: dict[str, NodeView] = {}

    @property
    def views(self) -> tuple[NodeView, ...]:
        """The nodes by name."""
        return tuple(sorted(self._by_uid.values(), key=lambda view: view.name))

    def put(self, body: Raw) -> bool:
        """A node as it is now; most heartbeats change nothing that is read."""
        try:
            found = msgspec.json.decode(body, type=dict)
        except msgspec.MsgspecError:
            return False
        uid, view = text(found, "metadata", "uid"), _shared(node(found))
        if self._by_uid.get(uid) == view:
            return False
        self._by_uid[uid] = view
        return True

    def drop(self, body: Raw) -> bool:
        """A node that is gone."""
        try:
            found = msgspec.json.decode(body, type=dict)
        except msgspec.MsgspecError:
            return False
        return self._by_uid.pop(text(found, "metadata", "uid"), None) is not None


def node(body: Body) -> NodeView:
    """A node as placement sees it."""
    labels = strings(body, "metadata", "labels")
    ready = any(
        text(each, "type") == "Ready" and text(each, "status") == "True"
        for each in items(body, "status", "conditions")
    )
    allocatable = mapping(body, "status", "allocatable")
    product = labels.get(names.LABEL_GPU_PRODUCT, "")
    return NodeView(
        name=text(body, "metadata", "name"),
        labels=labels,
        architecture=text(body, "status", "nodeInfo", "architecture")
        or _first(labels, names.LABEL_ARCHITECTURE, "beta.kubernetes.io/arch"),
        ready=ready and not text(body, "metadata", "deletionTimestamp"),
        unschedulable=flag(body, "spec", "unschedulable"),
        cpu_millis=millis(allocatable, "cpu"),
        memory=amount(allocatable, "memory"),
        ephemeral=amount(allocatable, "ephemeral-storage"),
        pods=amount(allocatable, "pods"),
        gpus=amount(allocatable, names.GPU_RESOURCE),
        gpu_product=product,
        gpu_memory=amount(labels, names.LABEL_GPU_MEMORY) << 20,
        gpu_hint="" if product else _hint(labels),
        taints=tuple(
            Taint(text(each, "key"), text(each, "value"), text(each, "effect"))
            for each in items(body, "spec", "taints")
        ),
        driver=_driver(labels),
        clique=labels.get(_CLIQUE, ""),
        compute=_compute(labels),
        zone=_first(labels, *_ZONE),
        instance_type=_first(labels, *_INSTANCE_TYPE),
        share=_share(labels, product),
    )


def _shared(view: NodeView) -> NodeView:
    """With labels that nodes have in common kept once, and no longer than a node has them."""
    labels = {sys.intern(key): sys.intern(value) for key, value in view.labels.items()}
    return replace(view, labels=labels)


def _first(labels: Mapping[str, str], *keys: str) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def _driver(labels: Mapping[str, str]) -> str:
    for keys in _DRIVER:
        parts = [labels[key] for key in keys if labels.get(key)]
        if parts:
            return ".".join(parts)
    return ""


def _compute(labels: Mapping[str, str]) -> str:
    major = labels.get(names.LABEL_GPU_MAJOR, "")
    return f"{major}.{labels.get(names.LABEL_GPU_MINOR) or 0}" if major else ""


def _share(labels: Mapping[str, str], product: str) -> GpuShare:
    """How much of a GPU one device is; a slice that is shared in time is a time share.

    Under the mixed MIG strategy slices are resources of their own (nvidia.com/mig-...), and what is
    left as nvidia.com/gpu are whole GPUs.
    """
    if (
        _TIME_PRODUCT in product
        or any(amount(labels, key) > 1 for key in _REPLICAS)
        or any(labels.get(key, "") not in _NOT_SHARED for key in _SHARING)
    ):
        return GpuShare.TIME
    if _SLICE_PRODUCT in product or labels.get(names.LABEL_GKE_PARTITION):
        return GpuShare.SLICE
    return GpuShare.WHOLE


def _hint(labels: Mapping[str, str]) -> str:
    """What the cloud says of GPUs that nobody describes: "label=value"."""
    return next((f"{key}={labels[key]}" for key in _CLOUDS if labels.get(key)), "")
