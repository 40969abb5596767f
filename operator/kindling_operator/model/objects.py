"""Small typed views of observed objects: only the fields that a decision reads.

Views are made once at the edge (observe.parse) and are compared by value: two watch events
that differ in nothing we read are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from kindling_operator.model.names import LABEL_REVISION, Key, Kind


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Identity of one observed object; uid and resource_version become preconditions of writes."""

    kind: Kind
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint (value "" when absent)."""

    key: str
    value: str
    effect: str


class GpuShare(StrEnum):
    """How much of a GPU one device of a node is.

    A MIG slice has memory and cores of its own; a time share (time-slicing, MPS) has neither, and
    each of them sees the whole memory.
    """

    WHOLE = "whole"
    SLICE = "slice"
    TIME = "time share"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as placement sees it.

    Allocatable memory and ephemeral storage in bytes and CPU in millicores, `pods` how many it
    takes, `gpus` allocatable devices, `gpu_memory` bytes of one of them, `architecture` as in
    kubernetes.io/arch, `driver` NVIDIA's (580.65.06). `clique` is the NVLink domain that spans
    nodes (nvidia.com/gpu.clique), "" where a node is its own. `share` is how much of a GPU one
    device is. `gpu_hint` is what the cloud's own label says of GPUs that nobody describes
    ("label=value"), `claim_gpus` how many there are that only a ResourceClaim gets, `compute` the
    compute capability (9.0). All "" or 0 where the node does not say.
    """

    name: str
    labels: Mapping[str, str]
    architecture: str
    ready: bool
    unschedulable: bool
    cpu_millis: int
    memory: int
    gpus: int
    gpu_product: str
    gpu_memory: int
    taints: tuple[Taint, ...] = ()
    ephemeral: int = 0
    driver: str = ""
    clique: str = ""
    zone: str = ""
    instance_type: str = ""
    share: GpuShare = GpuShare.WHOLE
    pods: int = 0
    gpu_hint: str = ""
    claim_gpus: int = 0
    compute: str = ""


ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that takes nothing of its node any more (core/v1 PodPhase)."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that requests a GPU or serves one of our models.

    `waiting_*` is the engine container's waiting state, `started` when it began to run, None while
    it does not; `ended_*` is its last termination, which stays after it was started again;
    `unschedulable` is the scheduler's message while PodScheduled is False, else "". CPU in
    millicores, memory and ephemeral storage in bytes, all as requested. `group` is the name of the
    LeaderWorkerSet whose member it is, "" for a replica of its own, and `rank` its place there.
    `address` is its IP, `scheduled` when it got its node, `unready_since` when it last stopped
    being ready or, if it never was, when the kubelet took it up; all "" or None until then. Until
    the weights are there all of this is told of the container that downloads them: `downloads` is
    True until then, and `fetching` while it runs. `ended_at` is when the container ended the last
    time, `ended_after` how long it had run. `up` is True once the present one has generated a
    token.
    """

    namespace: str
    name: str
    uid: str
    created: datetime
    node: str
    phase: str
    gpus: int
    model: Key | None
    revision: str
    ready: bool
    terminating: bool
    unschedulable: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    ended_exit_code: int | None = None
    ended_reason: str = ""
    ended_message: str = ""
    restarts: int = 0
    image: str = ""
    started: datetime | None = None
    cpu_millis: int = 0
    memory: int = 0
    ephemeral: int = 0
    group: str = ""
    rank: int = 0
    address: str = ""
    scheduled: datetime | None = None
    unready_since: datetime | None = None
    fetching: bool = False
    downloads: bool = False
    ended_at: datetime | None = None
    ended_after: timedelta | None = None
    up: bool = False

    @property
    def ended(self) -> bool:
        """Whether it takes nothing of its node any more."""
        return self.phase in ENDED_PHASES


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What the bound pods of one node request together that Snapshot.pods does not list.

    CPU in millicores, memory and ephemeral storage in bytes, `pods` their number.
    """

    cpu_millis: int = 0
    memory: int = 0
    ephemeral: int = 0
    pods: int = 0

    def plus(self, other: NodeUse) -> NodeUse:
        """Both together."""
        return NodeUse(
            cpu_millis=self.cpu_millis + other.cpu_millis,
            memory=self.memory + other.memory,
            ephemeral=self.ephemeral + other.ephemeral,
            pods=self.pods + other.pods,
        )


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """GPUs of a node that a ResourceClaim has: `name` is the pod that uses it, else the claim."""

    namespace: str
    name: str
    node: str
    gpus: int


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A PersistentVolumeClaim: does it exist, is it bound."""

    namespace: str
    name: str
    phase: str
    terminating: bool


@dataclass(frozen=True, slots=True)
class EndpointsView:
    """Pods that the model's Service sends traffic to, by name, from one EndpointSlice."""

    model: Key
    slice_name: str
    ready_pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChildView:
    """An object that carries our labels.

    `owner` and `owner_uid` are the InferenceModel that controls it, None and "" where something
    else does, or nothing.
    `manifest` is the observed object without status, managedFields and other server-set
    metadata; `status` holds the integers of a workload's status (replicas, readyReplicas,
    availableReplicas, updatedReplicas, observedGeneration) and is empty for other kinds.
    `failure` is the message of a Deployment's condition ReplicaFailure while it is True (a quota,
    a Pod Security profile, a missing ServiceAccount), else "". `created_entry` is the place of our
    creation among the object's managedFields while no apply has taken its fields over.
    """

    ref: ObjectRef
    owner: Key | None
    owner_uid: str
    created: datetime
    generation: int
    terminating: bool
    manifest: Mapping[str, Any]
    status: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    created_entry: int | None = None

    @property
    def annotations(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.manifest.get("metadata", {}).get("annotations", {})
        return found

    @property
    def revision(self) -> str:
        """The revision that it is labelled with, "" without one."""
        found: str = self.manifest.get("metadata", {}).get("labels", {}).get(LABEL_REVISION, "")
        return found
