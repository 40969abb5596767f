"""Every name that Kindling writes into a cluster or looks for in it: labels, kinds, objects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

GROUP = "kindling.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceModel"
PLURAL = "inferencemodels"

FIELD_MANAGER = "kindling"
STATUS_FIELD_MANAGER = "kindling-status"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "kindling"
LABEL_MODEL = f"{GROUP}/model"
LABEL_REVISION = f"{GROUP}/revision"
LABEL_ROLE = f"{GROUP}/role"
ROLE_LEADER = "leader"  # answers requests: the Service selects it
ROLE_WORKER = "worker"  # lends its GPUs to a leader
# "true" on a pod that answers requests beside the leader of its group: no replica of its own.
LABEL_FOLLOWER = f"{GROUP}/follower"

# The time of the user's word; `kindling replan` writes it, the revision's name depends on it.
ANNOTATION_REPLAN = f"{GROUP}/replan"
# On a child: digest of the manifest as last applied, so that a field we stop sending is noticed.
ANNOTATION_APPLIED = f"{GROUP}/applied"
# On a ControllerRevision: "true" once a replica of it stood behind the endpoint.
ANNOTATION_SERVED = f"{GROUP}/served"
# On a ControllerRevision: "true" once it was taken back, so that it is not tried again.
ANNOTATION_FAILED = f"{GROUP}/failed"
# Beside it, or beside the next: how replicas ended that are gone.
ANNOTATION_WHY = f"{GROUP}/failed-why"
# On a ControllerRevision: when a group of it gave its GPUs back: it lacked nodes, or failed.
ANNOTATION_RELEASED = f"{GROUP}/released"

GPU_RESOURCE = "nvidia.com/gpu"
# Labels of nodes: the first by the kubelet, the others by NVIDIA's GPU feature discovery.
LABEL_ARCHITECTURE = "kubernetes.io/arch"
LABEL_GPU_PRODUCT = "nvidia.com/gpu.product"
LABEL_GPU_MEMORY = "nvidia.com/gpu.memory"  # MiB of one GPU
LABEL_GPU_COUNT = "nvidia.com/gpu.count"  # GPUs that the node has, whoever may have them
LABEL_GPU_MAJOR = "nvidia.com/gpu.compute.major"
LABEL_GPU_MINOR = "nvidia.com/gpu.compute.minor"
LABEL_GPU_CLIQUE = "nvidia.com/gpu.clique"  # NVLink domain that spans nodes
LABEL_GPU_REPLICAS = "nvidia.com/gpu.replicas"  # time shares of one GPU, 1 without
LABEL_GPU_SHARING = "nvidia.com/gpu.sharing-strategy"  # none, time-slicing or mps
LABEL_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"  # time-sharing or mps
LABEL_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"  # MIG slices
LABEL_DRIVER = "nvidia.com/cuda.driver-version.major"  # the driver's branch
LABEL_DRIVER_OLD = "nvidia.com/cuda.driver.major"  # the same, of older releases

# 63 (a DNS label) less "-" and the revision's 10 hex digits, less 2 to spare.
MAX_NAME_LENGTH = 50
REVISION_DIGITS = 10

# LeaderWorkerSet names StatefulSets after itself ("-0" added for the workers'), and theirs stands
# with "-" and ten digits in a label of 63 (controller-revision-hash).
MAX_GROUP_NAME_LENGTH = 50
_DIGEST_DIGITS = 6

# Labels that LeaderWorkerSet gives to pods: of which group, and which of it (0 leads).
LABEL_GROUP = "leaderworkerset.sigs.k8s.io/name"
LABEL_RANK = "leaderworkerset.sigs.k8s.io/worker-index"

# Which Service an EndpointSlice belongs to (discovery.k8s.io/v1).
LABEL_SERVICE_NAME = "kubernetes.io/service-name"

ENGINE_CONTAINER = "engine"
FETCH_CONTAINER = "fetch"  # downloads the weights before the engine starts


class Key(NamedTuple):
    """Namespace and name of one InferenceModel."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object, as the API server addresses it."""

    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def is_of(self, said: Mapping[str, Any]) -> bool:
        """Whether an object, or a reference to one, says that it is of this kind.

        The version does not matter, the group does: others have kinds of the same name, such as
        the InferenceModel of inference.networking.x-k8s.io.
        """
        group = str(said.get("apiVersion", "")).rpartition("/")[0]
        return (group, said.get("kind")) == (self.group, self.kind)


SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
SERVICE = Kind("v1", "Service", "services")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
LEADER_WORKER_SET = Kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets")

# Every kind that render may produce, in the order of apply.
CHILD_KINDS: tuple[Kind, ...] = (
    SERVICE_ACCOUNT,
    CONTROLLER_REVISION,
    CONFIG_MAP,
    NETWORK_POLICY,
    SERVICE,
    DEPLOYMENT,
    LEADER_WORKER_SET,
)

# What runs replicas: a Deployment all of a revision's, a LeaderWorkerSet one of several pods.
WORKLOAD_KINDS: tuple[Kind, ...] = (DEPLOYMENT, LEADER_WORKER_SET)

# Kinds that a cluster may lack: they are of somebody else's CRD.
OPTIONAL_KINDS = frozenset({LEADER_WORKER_SET})

# What prune looks at. The others go with their owner only: no decision can take an endpoint away,
# or the fence around pods that run.
PRUNED_KINDS: tuple[Kind, ...] = tuple(
    kind for kind in CHILD_KINDS if kind not in {SERVICE, NETWORK_POLICY}
)


def revision_object_name(model: str, revision: str) -> str:
    """Name shared by a revision's ControllerRevision, ConfigMap and Deployment."""
    return f"{model}-{revision}"


def limits_object_name(model: str) -> str:
    """Name of the ConfigMap with what pods read at their start and no revision holds."""
    return f"{model}-limits"


def group_object_name(model: str, revision: str, number: int) -> str:
    """Name of one replica's LeaderWorkerSet. Of a long model name a digest stands for the end."""
    end = f"-{revision}-{number}"
    room = MAX_GROUP_NAME_LENGTH - len(end)
    if len(model) > room:
        digest = hashlib.sha256(model.encode()).hexdigest()[:_DIGEST_DIGITS]
        model = f"{model[: room - _DIGEST_DIGITS - 1].rstrip('-')}-{digest}"
    return f"{model}{end}"


def group_number(name: str) -> int:
    """Which replica of its revision a LeaderWorkerSet of that name is."""
    end = name.rpartition("-")[2]
    return int(end) if end.isdecimal() else 0


def endpoint_url(key: Key, port: int) -> str:
    """Base URL of the OpenAI API inside the cluster."""
    return f"http://{key.name}.{key.namespace}.svc:{port}/v1"
