"""Every name that Kindling writes into a cluster or looks for in it: labels, kinds, objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
ROLE_LEADER = "leader"

# The time of the user's word; `kindling replan` writes it, the revision's name depends on it.
ANNOTATION_REPLAN = f"{GROUP}/replan"
# On a child: digest of the manifest as last applied, so that a field we stop sending is noticed.
ANNOTATION_APPLIED = f"{GROUP}/applied"
# On a ControllerRevision: "true" once a replica of it stood behind the endpoint.
ANNOTATION_SERVED = f"{GROUP}/served"
# On a ControllerRevision: "true" once it was taken back, so that it is not tried again.
ANNOTATION_FAILED = f"{GROUP}/failed"

GPU_RESOURCE = "nvidia.com/gpu"
# Labels of nodes: the first by the kubelet, the others by NVIDIA's GPU feature discovery.
LABEL_ARCHITECTURE = "kubernetes.io/arch"
LABEL_GPU_PRODUCT = "nvidia.com/gpu.product"
LABEL_GPU_MEMORY = "nvidia.com/gpu.memory"  # MiB of one GPU
LABEL_GPU_MAJOR = "nvidia.com/gpu.compute.major"
LABEL_GPU_MINOR = "nvidia.com/gpu.compute.minor"

# 63 (a DNS label) less "-" and the revision's 10 hex digits, less 2 to spare.
MAX_NAME_LENGTH = 50
REVISION_DIGITS = 10

# Which Service an EndpointSlice belongs to (discovery.k8s.io/v1).
LABEL_SERVICE_NAME = "kubernetes.io/service-name"

ENGINE_CONTAINER = "engine"


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


SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
SERVICE = Kind("v1", "Service", "services")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")

# Every kind that render may produce, in the order of apply.
CHILD_KINDS: tuple[Kind, ...] = (
    SERVICE_ACCOUNT,
    CONTROLLER_REVISION,
    CONFIG_MAP,
    SERVICE,
    DEPLOYMENT,
)

# What prune looks at. A Service goes with its owner only: no decision can take an endpoint away.
PRUNED_KINDS: tuple[Kind, ...] = tuple(kind for kind in CHILD_KINDS if kind != SERVICE)


def revision_object_name(model: str, revision: str) -> str:
    """Name shared by a revision's ControllerRevision, ConfigMap and Deployment."""
    return f"{model}-{revision}"


def endpoint_url(key: Key, port: int) -> str:
    """Base URL of the OpenAI API inside the cluster."""
    return f"http://{key.name}.{key.namespace}.svc:{port}/v1"
