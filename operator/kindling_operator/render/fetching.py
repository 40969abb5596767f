"""What a pod has around its weights: the container that downloads them, and the cache's volumes.

The engine reads weights and never writes them. Of a claim that keeps them it has two folders to
write: one for the kernels that it compiles, whose name is that of all that they depend on, and one
in which the runtime marks that the pod uses the cache. The first is only there for an image that is
given by digest.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from kindling_operator.model.names import FETCH_CONTAINER, Key, limits_object_name
from kindling_operator.model.plan import EnginePlan
from kindling_operator.plan.memory import GIB
from kindling_operator.plan.mounts import CACHE_ROOT
from kindling_operator.render.quantities import cpu_quantity, memory_quantity
from kindling_runtime import contract
from kindling_runtime.contract import (
    CACHE_LIMIT_VARIABLE,
    PLAN_PATH,
    POD_VARIABLE,
    TERMINATION_LOG_PATH,
    TOKEN_VARIABLE,
)

CACHE_LIMIT_KEY: Final = "cacheMaxBytes"
"""Key of the bytes in the ConfigMap of limits."""

_VOLUME: Final = "cache"
_KERNELS_PATH: Final = "/var/cache/kindling"
_USE_PATH: Final = "/var/lib/kindling/use"
_MEMORY: Final = 1 * GIB
"""Below 200 MiB are resident; the rest is page cache on its way to the disk."""
_CPU_MILLIS: Final = 1000

_OWN_UID = {
    "name": POD_VARIABLE,
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
}


def launch_weights(plan: EnginePlan) -> contract.Weights:
    """The runtime's orders about the weights."""
    mount = plan.weights
    if mount.fetch is None and not mount.cache_claim:
        return contract.Weights(uri=mount.uri, path=mount.path)
    wanted = mount.fetch
    return contract.Weights(
        uri=mount.uri,
        path=mount.path,
        fetch=contract.Fetch(
            volume=CACHE_ROOT,
            key=wanted.key if wanted is not None else "",
            revision=wanted.revision if wanted is not None else "",
            config_uri=(wanted.config_uri if wanted is not None else "") or None,
            bytes=wanted.bytes if wanted is not None else 0,
            kernels=_kernels(plan),
            shared=bool(mount.cache_claim),
        ),
        use=_USE_PATH if mount.cache_claim else None,
    )


def fetches(plan: EnginePlan) -> bool:
    """Whether the pod has a cache, and a container that fills it."""
    return plan.weights.fetch is not None or bool(plan.weights.cache_claim)


def fetch_container(key: Key, plan: EnginePlan, *, security: dict[str, Any]) -> dict[str, Any]:
    """The init container: done at once where the cache has everything."""
    disk = {"ephemeral-storage": memory_quantity(plan.pod.ephemeral)} if plan.pod.ephemeral else {}
    memory = {"memory": memory_quantity(min(_MEMORY, plan.pod.memory))}
    cpu = {"cpu": cpu_quantity(min(_CPU_MILLIS, plan.pod.cpu_millis))}
    return {
        "name": FETCH_CONTAINER,
        "image": plan.image,
        "imagePullPolicy": plan.pod.image_pull_policy,
        "command": ["kindling-runtime", "fetch", "--plan", PLAN_PATH],
        "env": [
            {"name": "HF_HUB_DISABLE_TELEMETRY", "value": "1"},
            {"name": "HOME", "value": "/tmp"},
            _OWN_UID,
            *_limit(key, plan),
            *_token(plan),
        ],
        "resources": {"requests": {**cpu, **memory, **disk}, "limits": memory},
        "terminationMessagePath": TERMINATION_LOG_PATH,
        "terminationMessagePolicy": "File",
        "securityContext": security,
        "volumeMounts": [
            {"name": "plan", "mountPath": PLAN_PATH.rpartition("/")[0], "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": _VOLUME, "mountPath": CACHE_ROOT},
        ],
    }


def identity_labels(plan: EnginePlan) -> dict[str, str]:
    """What a cloud's webhook wants to see on a pod that is to get its ServiceAccount's identity.

    Azure's alone (azure-workload-identity 1.0: topics, service account labels and annotations);
    those of EKS look at the ServiceAccount.
    """
    if plan.weights.fetch is None or not plan.weights.uri.startswith("az://"):
        return {}
    return {"azure.workload.identity/use": "true"}


def cache_volumes(plan: EnginePlan) -> list[dict[str, Any]]:
    """The claim, or a volume that lives and dies with the pod."""
    if plan.weights.cache_claim:
        claim = {"claimName": plan.weights.cache_claim}
        return [{"name": _VOLUME, "persistentVolumeClaim": claim}]
    if plan.weights.fetch is None:
        return []
    room = memory_quantity(plan.weights.fetch.room)
    return [{"name": _VOLUME, "emptyDir": {"sizeLimit": room}}]


def engine_mounts(plan: EnginePlan) -> list[dict[str, Any]]:
    """What the engine sees of the cache. Both folders of the claim were made by the init container,
    as the user who writes there."""
    mounts: list[dict[str, Any]] = []
    if plan.weights.fetch is not None:
        mounts.append({"name": _VOLUME, "mountPath": CACHE_ROOT, "readOnly": True})
    if plan.weights.cache_claim:
        own = f"uses/$({POD_VARIABLE})"
        if kernels := _kernels(plan):
            mounts.append({"name": _VOLUME, "mountPath": _KERNELS_PATH, "subPath": kernels})
        mounts.append({"name": _VOLUME, "mountPath": _USE_PATH, "subPathExpr": own})
    return mounts


def engine_environment(plan: EnginePlan) -> tuple[dict[str, Any], ...]:
    """Where what the engine compiles stays, if anything does.

    vLLM 0.33.0 (envs.py), Triton (knobs.py), FlashInfer (jit/env.py, below which it makes
    .cache/flashinfer), torch (torch/_inductor/runtime/cache_dir_utils.py), QuACK 0.6.5
    (cache/__init__.py) and the CuTe kernels of vLLM's FlashAttention, which keep nothing unless
    told to. The rest keeps it below the home, such as Humming 0.1.19 (utils/jit.py), whose kernels
    for Flint NVFP4 take two minutes of an H200's start, and the driver.
    """
    if not plan.weights.cache_claim:
        return ()
    if not _kernels(plan):
        return (_OWN_UID,)
    folders = {
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "cute",
        "HOME": "home",
        "QUACK_CACHE_DIR": "quack",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "VLLM_CACHE_ROOT": "vllm",
    }
    return (
        *({"name": name, "value": f"{_KERNELS_PATH}/{at}"} for name, at in folders.items()),
        {"name": "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "value": "1"},
        _OWN_UID,
    )


def owning_group(plan: EnginePlan, group: int) -> dict[str, Any]:
    """The group that may write to a claim, which belongs to root when it is new."""
    if not plan.weights.cache_claim:
        return {}
    return {"fsGroup": group, "fsGroupChangePolicy": "OnRootMismatch"}


def _token(plan: EnginePlan) -> tuple[dict[str, Any], ...]:
    fetch = plan.weights.fetch
    if fetch is None or not fetch.token_secret:
        return ()
    key = {"name": fetch.token_secret, "key": fetch.token_key}
    return ({"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": key}},)


def _limit(key: Key, plan: EnginePlan) -> tuple[dict[str, Any], ...]:
    """The claim's limit as it is when the container starts; there may be none."""
    if plan.weights.fetch is None or not plan.weights.cache_claim:
        return ()
    source = {"name": limits_object_name(key.name), "key": CACHE_LIMIT_KEY, "optional": True}
    return ({"name": CACHE_LIMIT_VARIABLE, "valueFrom": {"configMapKeyRef": source}},)


def _kernels(plan: EnginePlan) -> str:
    """The folder of what an engine compiles; "" if it stays in the pod. Compiled code is of one
    image, one GPU and one command: whatever differs makes another folder. A tag names one image
    today and another tomorrow, so an image without a digest leaves nothing to the next pod."""
    if not plan.weights.cache_claim or "@" not in plan.image:
        return ""
    product = plan.gpu.product if plan.gpu is not None else "CPU"
    parts = (plan.image, product, *plan.argv, *(f"{k}={v}" for k, v in sorted(plan.env.items())))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    shown = re.sub(r"[^A-Za-z0-9.]+", "-", f"{plan.model}-{product}")[:64]
    return f"kernels/{shown}-{digest}"
