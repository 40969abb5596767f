"""GPUs that dynamic resource allocation publishes and hands out (resource.k8s.io/v1).

The driver is NVIDIA's (gpu.nvidia.com); its devices are of type gpu, mig or vfio, with product,
memory, compute capability and driver as attributes (k8s-dra-driver-gpu, docs of ResourceSlices).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from msgspec import Struct, field

from kindling_operator.kube.reflector import Raw
from kindling_operator.model.names import GPU_RESOURCE
from kindling_operator.model.objects import DeviceHold, NodeView
from kindling_operator.observe.fields import amount
from kindling_operator.observe.requests import Metadata

DRIVER: Final = "gpu.nvidia.com"
_OF_A_POD: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for a pod's request of an extended resource
(resource/v1 types.go, ExtendedResourceClaimAnnotation): the pod counts already."""


@dataclass(frozen=True, slots=True)
class Devices:
    """What one ResourceSlice has of whole GPUs on one node, by device name.

    `product` as the driver names it, `memory` bytes of one, `compute` such as 9.0; "" or 0 where
    the slice does not say.
    """

    node: str
    pool: str
    names: tuple[str, ...]
    product: str = ""
    memory: int = 0
    compute: str = ""
    driver: str = ""


class _Value(Struct):
    string: str = ""
    version: str = ""


class _Amount(Struct):
    value: str | int = 0


class _Device(Struct):
    name: str = ""
    attributes: dict[str, _Value] = field(default_factory=dict)
    capacity: dict[str, _Amount] = field(default_factory=dict)


class _Pool(Struct):
    name: str = ""


class _SliceSpec(Struct):
    driver: str = ""
    nodeName: str = ""  # noqa: N815 (Kubernetes' spelling)
    pool: _Pool = field(default_factory=_Pool)
    devices: list[_Device] | None = None


class _Slice(Struct):
    metadata: Metadata
    spec: _SliceSpec


class _Result(Struct):
    driver: str = ""
    pool: str = ""
    device: str = ""


class _Results(Struct):
    results: list[_Result] | None = None


class _Allocation(Struct):
    devices: _Results = field(default_factory=_Results)


class _Consumer(Struct):
    name: str = ""


class _ClaimStatus(Struct):
    allocation: _Allocation | None = None
    reservedFor: list[_Consumer] | None = None  # noqa: N815


class _Annotated(Metadata):
    annotations: dict[str, str] = field(default_factory=dict)


class _Claim(Struct):
    metadata: _Annotated
    status: _ClaimStatus = field(default_factory=_ClaimStatus)


class _ClassSpec(Struct):
    extendedResourceName: str = ""  # noqa: N815


class _Class(Struct):
    metadata: Metadata
    spec: _ClassSpec


_SLICE: Final = msgspec.json.Decoder(_Slice)
_CLAIM: Final = msgspec.json.Decoder(_Claim)
_CLASS: Final = msgspec.json.Decoder(_Class)


class Slices:
    """The ResourceSlices of NVIDIA's driver that belong to one node each."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Devices] = {}

    @property
    def devices(self) -> tuple[Devices, ...]:
        """What each slice has, by node and pool."""
        return tuple(sorted(self._by_uid.values(), key=lambda each: (each.node, each.pool)))

    def put(self, body: Raw) -> bool:
        """A slice as it is now."""
        try:
            found = _SLICE.decode(body)
        except msgspec.MsgspecError:
            return False
        old, new = self._by_uid.pop(found.metadata.uid, None), _devices(found.spec)
        if new is not None:
            self._by_uid[found.metadata.uid] = new
        return old != new

    def drop(self, body: Raw) -> bool:
        """A slice that is gone."""
        return self._by_uid.pop(_uid(body), None) is not None


class Allocations:
    """The claims that have devices of NVIDIA's driver: by pool and device, who has it."""

    def __init__(self) -> None:
        self._by_uid: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {}

    def held(self, slices: Iterable[Devices]) -> tuple[DeviceHold, ...]:
        """Who holds how many whole GPUs on which node, sorted."""
        nodes = {(each.pool, name): each.node for each in slices for name in each.names}
        counts: Counter[tuple[str, str, str]] = Counter()
        for namespace, name, devices in self._by_uid.values():
            for device in devices:
                if device in nodes:
                    counts[nodes[device], namespace, name] += 1
        return tuple(
            DeviceHold(namespace, name, node, gpus)
            for (node, namespace, name), gpus in sorted(counts.items())
        )

    def put(self, body: Raw) -> bool:
        """A claim as it is now."""
        try:
            found = _CLAIM.decode(body)
        except msgspec.MsgspecError:
            return False
        metadata, status = found.metadata, found.status
        results = status.allocation.devices.results if status.allocation is not None else None
        devices = tuple((r.pool, r.device) for r in results or () if r.driver == DRIVER)
        old = self._by_uid.pop(metadata.uid, None)
        if not devices or metadata.annotations.get(_OF_A_POD) == "true":
            return old is not None
        consumers = status.reservedFor or ()
        name = next((each.name for each in consumers if each.name), metadata.name)
        new = (metadata.namespace, name, devices)
        self._by_uid[metadata.uid] = new
        return old != new

    def drop(self, body: Raw) -> bool:
        """A claim that is gone."""
        return self._by_uid.pop(_uid(body), None) is not None


class Classes:
    """The DeviceClasses through which pods get devices by asking for nvidia.com/gpu."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    @property
    def mapped(self) -> bool:
        """Whether there is one."""
        return bool(self._uids)

    def put(self, body: Raw) -> bool:
        """A class as it is now."""
        try:
            found = _CLASS.decode(body)
        except msgspec.MsgspecError:
            return False
        before = self.mapped
        self._uids.discard(found.metadata.uid)
        if found.spec.extendedResourceName == GPU_RESOURCE:
            self._uids.add(found.metadata.uid)
        return self.mapped != before

    def drop(self, body: Raw) -> bool:
        """A class that is gone."""
        before = self.mapped
        self._uids.discard(_uid(body))
        return self.mapped != before


def with_devices(
    nodes: Iterable[NodeView], slices: Iterable[Devices], *, mapped: bool
) -> tuple[NodeView, ...]:
    """The nodes with what ResourceSlices add: GPUs that pods get by nvidia.com/gpu where a
    DeviceClass is `mapped`, else by a claim alone; and facts that no label tells."""
    by_node: dict[str, list[Devices]] = {}
    for each in slices:
        by_node.setdefault(each.node, []).append(each)
    return tuple(
        _with(node, by_node[node.name], mapped=mapped) if node.name in by_node else node
        for node in nodes
    )


def _with(node: NodeView, slices: list[Devices], *, mapped: bool) -> NodeView:
    count, first = sum(len(each.names) for each in slices), slices[0]
    if not node.gpus:
        node = replace(node, gpus=count if mapped else 0, claim_gpus=0 if mapped else count)
    hint = f"its ResourceSlice says {first.product}" if first.product else ""
    return replace(
        node,
        gpu_memory=node.gpu_memory or first.memory,
        compute=node.compute or first.compute,
        driver=node.driver or first.driver,
        gpu_hint="" if node.gpu_product else node.gpu_hint or hint,
    )


def _devices(spec: _SliceSpec) -> Devices | None:
    """The whole GPUs of a slice; None where it is another driver's, or has none on one node."""
    whole = [each for each in spec.devices or () if _text(each.attributes, "type") == "gpu"]
    if spec.driver != DRIVER or not spec.nodeName or not whole:
        return None
    first = whole[0]
    capacity = first.capacity.get("memory")
    return Devices(
        node=spec.nodeName,
        pool=spec.pool.name,
        names=tuple(each.name for each in whole),
        product=_text(first.attributes, "productName"),
        memory=amount({"memory": capacity.value}, "memory") if capacity is not None else 0,
        compute=".".join(_text(first.attributes, "cudaComputeCapability").split(".")[:2]),
        driver=_text(first.attributes, "driverVersion"),
    )


def _text(attributes: Mapping[str, _Value], name: str) -> str:
    """An attribute, whose name may be qualified by the driver's domain."""
    value = attributes.get(name) or attributes.get(f"{DRIVER}/{name}")
    return (value.string or value.version) if value is not None else ""


class _Identified(Struct):
    metadata: Metadata


_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)


def _uid(body: Raw) -> str:
    try:
        return _IDENTIFIED.decode(body).metadata.uid
    except msgspec.MsgspecError:
        return ""
