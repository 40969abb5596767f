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

CLUSTER_SCOPED: Final = frozenset({NODE, PRIORITY_CLASS})
