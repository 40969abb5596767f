"""Kinds that the operator reads or writes besides those that it renders (`model.names`)."""

from typing import Final

from kindling_operator.model import names
from kindling_operator.model.names import Kind

MODEL: Final = Kind(names.API_VERSION, names.KIND, names.PLURAL)
NODE: Final = Kind("v1", "Node", "nodes")
POD: Final = Kind("v1", "Pod", "pods")
CLAIM: Final = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
ENDPOINT_SLICE: Final = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")
PRIORITY_CLASS: Final = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses")
EVENT: Final = Kind("events.k8s.io/v1", "Event", "events")

# Dynamic resource allocation, which a cluster may lack.
RESOURCE_SLICE: Final = Kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices")
RESOURCE_CLAIM: Final = Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
DEVICE_CLASS: Final = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses")
DEVICE_KINDS: Final = (RESOURCE_SLICE, RESOURCE_CLAIM, DEVICE_CLASS)

BESIDE_KINDS: Final = (NODE, *DEVICE_KINDS)
"""What is watched beside kopf and nowhere else (observe/beside.py)."""

CLUSTER_SCOPED: Final = frozenset({NODE, PRIORITY_CLASS, RESOURCE_SLICE, DEVICE_CLASS})
