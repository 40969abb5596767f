"""The pod of one replica: restricted Pod Security, nothing writable but what is named here."""

from __future__ import annotations

from itertools import product
from typing import Any

from kindling_operator.model.names import (
    ENGINE_CONTAINER,
    GPU_RESOURCE,
    LABEL_FOLLOWER,
    LABEL_GPU_CLIQUE,
    LABEL_GROUP,
    LABEL_MODEL,
    LABEL_ROLE,
    ROLE_WORKER,
    Key,
)
from kindling_operator.model.names import revision_object_name as object_name
from kindling_operator.model.plan import EnginePlan, NodeOperator, NodeRequirement
from kindling_operator.plan.mounts import WEIGHTS_ROOT
from kindling_operator.render.fetching import (
    cache_volumes,
    engine_environment,
    engine_mounts,
    fetch_container,
    fetches,
    identity_labels,
    owning_group,
)
from kindling_operator.render.launch import drain, launch_plan
from kindling_operator.render.metadata import labels, leader_selector
from kindling_operator.render.quantities import cpu_quantity, memory_quantity
from kindling_runtime.contract import (
    ENGINE_PORT,
    LIVE_PATH,
    PLAN_PATH,
    READY_PATH,
    RUNTIME_PORT,
    STARTED_PATH,
    TERMINATION_LOG_PATH,
    startup_timeout_seconds,
    termination_grace_seconds,
)

HTTP_PORT_NAME = "http"
RUNTIME_PORT_NAME = "runtime"

_USER = 65532
_PLAN_FOLDER, _, PLAN_KEY = PLAN_PATH.rpartition("/")
_SCRATCH = "16Gi"
"""Compiled kernels and temporary files; the pod is evicted beyond it."""

_LISTENS_SECONDS = 5
"""From the start of the container until the runtime listens, on a busy node; no engine has a token
by then."""

_ENVIRONMENT = {
    # The user has no home in the image, and /tmp is all that can be written.
    "HOME": "/tmp",
    "USER": "kindling",
    "VLLM_CACHE_ROOT": "/tmp/vllm",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "/tmp/vllm/cute",
}

# vLLM tells the others of a group this address; it would guess by a route to the internet.
_OWN_ADDRESS = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def pod_template(key: Key, revision: str, plan: EnginePlan) -> dict[str, Any]:
    """The pod template of a revision, complete: from here on it is only ever copied.

    Of a replica that is a group, it is the leader's.
    """
    return _template(key, revision, plan, leader_selector(key), serves=True)


def worker_template(key: Key, revision: str, plan: EnginePlan) -> dict[str, Any]:
    """The template of a group's other pods. Those that answer requests get the Service's too."""
    if any(plan.group.serving[1:] if plan.group is not None else ()):
        role = {**leader_selector(key), LABEL_FOLLOWER: "true"}
        return _template(key, revision, plan, role, serves=True)
    role = {**leader_selector(key), LABEL_ROLE: ROLE_WORKER}
    return _template(key, revision, plan, role, serves=False)


def _template(
    key: Key, revision: str, plan: EnginePlan, role: dict[str, str], *, serves: bool
) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {
                **labels(key, ENGINE_CONTAINER, revision),
                **role,
                **identity_labels(plan),
            }
        },
        "spec": {
            "serviceAccountName": plan.pod.service_account,
            "automountServiceAccountToken": False,
            # A Service called "vllm" would set VLLM_PORT in every pod of the namespace.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": termination_grace_seconds(drain(plan)),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
                **owning_group(plan, _USER),
            },
            **_before_the_engine(key, plan),
            "containers": [_engine(plan, serves=serves)],
            "volumes": _volumes(key, revision, plan),
            **_placement(plan),
            **_affinity(key, plan),
        },
    }


def _before_the_engine(key: Key, plan: EnginePlan) -> dict[str, Any]:
    if not fetches(plan):
        return {}
    return {"initContainers": [fetch_container(key, plan, security=_security())]}


def _engine(plan: EnginePlan, *, serves: bool) -> dict[str, Any]:
    return {
        "name": ENGINE_CONTAINER,
        "image": plan.image,
        "imagePullPolicy": plan.pod.image_pull_policy,
        "command": ["kindling-runtime", "serve", "--plan", PLAN_PATH],
        "env": [
            *_environment(plan),
            *(() if plan.group is None else (_OWN_ADDRESS,)),
        ],
        "ports": [
            *((_port(HTTP_PORT_NAME, ENGINE_PORT),) if serves else ()),
            _port(RUNTIME_PORT_NAME, RUNTIME_PORT),
        ],
        "resources": _resources(plan),
        "startupProbe": _startup_probe(plan),
        "readinessProbe": _probe(READY_PATH, period=2, failures=2),
        "livenessProbe": _probe(LIVE_PATH, period=10, failures=3),
        "terminationMessagePath": TERMINATION_LOG_PATH,
        "terminationMessagePolicy": "File",
        "securityContext": _security(),
        "volumeMounts": _mounts(plan),
    }


def _security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _environment(plan: EnginePlan) -> tuple[dict[str, Any], ...]:
    """The plain variables; those of a cache replace what else would be in /tmp."""
    own = engine_environment(plan)
    replaced = {each["name"] for each in own}
    rest = {name: value for name, value in _ENVIRONMENT.items() if name not in replaced}
    found = (*({"name": name, "value": value} for name, value in rest.items()), *own)
    return tuple(sorted(found, key=lambda each: str(each["name"])))


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _resources(plan: EnginePlan) -> dict[str, Any]:
    """Memory is bounded, CPU is not: a limit would slow the start down and save nothing."""
    memory = {"memory": memory_quantity(plan.pod.memory)}
    gpus = {GPU_RESOURCE: str(plan.gpus_per_pod)} if plan.gpus_per_pod else {}
    disk = {"ephemeral-storage": memory_quantity(plan.pod.ephemeral)} if plan.pod.ephemeral else {}
    return {
        "requests": {"cpu": cpu_quantity(plan.pod.cpu_millis), **memory, **disk, **gpus},
        "limits": {**memory, **gpus},
    }


def _probe(path: str, *, period: int, failures: int, timeout: int = 5) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": RUNTIME_PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _startup_probe(plan: EnginePlan) -> dict[str, Any]:
    """One question that is answered when the start is over; until then no other probe asks.

    A probe that fails is a Warning in the namespace, and an engine loads for minutes. The runtime
    ends a start that takes too long, with its reason; the failures are for a node so busy that
    the runtime does not listen yet.
    """
    patience = startup_timeout_seconds(launch_plan(plan))
    asked = _probe(STARTED_PATH, period=5, failures=24, timeout=patience)
    return {"initialDelaySeconds": _LISTENS_SECONDS, **asked}


def _volumes(key: Key, revision: str, plan: EnginePlan) -> list[dict[str, Any]]:
    shared = {"medium": "Memory", "sizeLimit": memory_quantity(plan.pod.shared_memory)}
    volumes: list[dict[str, Any]] = [
        {"name": "plan", "configMap": {"name": object_name(key.name, revision)}},
        {"name": "tmp", "emptyDir": {"sizeLimit": _SCRATCH}},
        {"name": "shm", "emptyDir": shared},
    ]
    if plan.weights.claim:
        claim = {"claimName": plan.weights.claim, "readOnly": True}
        volumes.append({"name": "weights", "persistentVolumeClaim": claim})
    return [*volumes, *cache_volumes(plan)]


def _mounts(plan: EnginePlan) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "plan", "mountPath": _PLAN_FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if plan.weights.claim:
        mounts.append({"name": "weights", "mountPath": WEIGHTS_ROOT, "readOnly": True})
    return [*mounts, *engine_mounts(plan)]


def _placement(plan: EnginePlan) -> dict[str, Any]:
    """What was asked for; an empty field would be dropped by the API server."""
    asked = {
        "nodeSelector": dict(plan.pod.node_selector),
        "tolerations": [dict(toleration) for toleration in plan.pod.tolerations],
        "priorityClassName": plan.pod.priority_class,
        "imagePullSecrets": [{"name": name} for name in plan.pod.image_pull_secrets],
    }
    return {field: value for field, value in asked.items() if value}


def _affinity(key: Key, plan: EnginePlan) -> dict[str, Any]:
    found = {**_node_affinity(plan), **_one_clique(key, plan)}
    return {"affinity": found} if found else {}


def _node_affinity(plan: EnginePlan) -> dict[str, Any]:
    """The nodes that the plan holds on; a selector cannot say "at least"."""
    if not plan.pod.node_requirements:
        return {}
    # Terms are alternatives: what a node may also lack is asked for in one and excluded in another.
    choices = [
        (_expression(each), _absent(each)) if each.or_absent else (_expression(each),)
        for each in plan.pod.node_requirements
    ]
    terms = [{"matchExpressions": list(expressions)} for expressions in product(*choices)]
    term = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}


def _expression(requirement: NodeRequirement) -> dict[str, Any]:
    values = {"values": list(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator.value, **values}


def _absent(requirement: NodeRequirement) -> dict[str, Any]:
    return {"key": requirement.key, "operator": NodeOperator.DOES_NOT_EXIST.value}


def _one_clique(key: Key, plan: EnginePlan) -> dict[str, Any]:
    """All pods of a group in the NVLink domain of the first that finds a node."""
    if plan.group is None or plan.gpu is None or not plan.gpu.one_clique:
        return {}
    term = {
        "topologyKey": LABEL_GPU_CLIQUE,
        "labelSelector": {"matchLabels": {LABEL_MODEL: key.name}},
        # Each pod's own group, which the stored template cannot name.
        "matchLabelKeys": [LABEL_GROUP],
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
