"""The pod's GPUs as NVIDIA's driver tells of them (NVML), against those of the plan."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, Final

from kindling_runtime.contract import Device

_MIB: Final = 1 << 20
_TAKEN_SHARE: Final = 0.08
"""vLLM takes 0.92 of a GPU (gpu_memory_utilization); more than the rest may not be in use."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: memory and what is in use of it in bytes, `capability` such as 9.0."""

    product: str
    memory: int
    used: int
    capability: str


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What NVML tells: the driver's version and all GPUs of the container."""

    driver: str
    gpus: tuple[Gpu, ...]


class UnseenError(Exception):
    """NVML cannot be asked; the text is a clause."""


def look(nvml: Any = None) -> Found:
    """The GPUs that the container has; raises UnseenError. `nvml` is nvidia-ml-py's module."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError:
        raise UnseenError("the image has no nvidia-ml-py") from None
    try:
        nvml.nvmlInit()
        try:
            handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
            gpus = tuple(_gpu(nvml, handle) for handle in handles)
            return Found(_text(nvml.nvmlSystemGetDriverVersion()), gpus)
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        raise UnseenError(f"NVML says {error}") from None


def problem(found: Found, wanted: Device) -> str | None:
    """The first difference to the plan, in one sentence; None without one."""
    said = (check(found, wanted) for check in _CHECKS)
    return next((each for each in said if each is not None), None)


def count_differs(found: Found, wanted: Device) -> str | None:
    """Each rank needs a GPU of its own."""
    has = len(found.gpus)
    if has == wanted.count:
        return None
    return (
        f"the container sees {has} GPU{'' if has == 1 else 's'} and the plan is for {wanted.count};"
        " see that the device plugin gives the pod what it asks for, and that"
        " NVIDIA_VISIBLE_DEVICES is not set"
    )


def product_differs(found: Found, wanted: Device) -> str | None:
    """The plan's numbers are those of one product, as GPU feature discovery spells it."""
    other = next((gpu for gpu in found.gpus if _label(gpu.product) != wanted.product), None)
    if other is None:
        return None
    return (
        f"GPU {found.gpus.index(other)} is {_label(other.product)} and the plan is for"
        f" {wanted.product}; correct the node's label nvidia.com/gpu.product"
    )


def memory_is_short(found: Found, wanted: Device) -> str | None:
    """Weights and KV cache were divided by the bytes of the node's label."""
    small = next((gpu for gpu in found.gpus if gpu.memory // _MIB < wanted.memory // _MIB), None)
    if small is None:
        return None
    return (
        f"GPU {found.gpus.index(small)} has {small.memory // _MIB} MiB and the plan is for"
        f" {wanted.memory // _MIB}; correct the node's label nvidia.com/gpu.memory"
    )


def capability_differs(found: Found, wanted: Device) -> str | None:
    """Kernels are chosen by compute capability."""
    other = next((gpu for gpu in found.gpus if gpu.capability != wanted.capability), None)
    if other is None or not wanted.capability:
        return None
    return (
        f"GPU {found.gpus.index(other)} has compute capability {other.capability} and the plan is"
        f" for {wanted.capability}; correct the node's label nvidia.com/gpu.compute.major"
    )


def driver_is_too_old(found: Found, wanted: Device) -> str | None:
    """CUDA's floor is a branch of the driver (CUDA compatibility guide)."""
    has, least = _branch(found.driver), _branch(wanted.driver)
    if has >= least:
        return None
    return (
        f"the NVIDIA driver is {found.driver} and the image needs {wanted.driver} or later; upgrade"
        " the driver of the node"
    )


def memory_is_taken(found: Found, wanted: Device) -> str | None:
    """What somebody else has in use cannot be had: an engine that was not ended, a shared GPU."""
    taken = next((g for g in found.gpus if g.used > _TAKEN_SHARE * g.memory), None)
    if taken is None:
        return None
    return (
        f"{taken.used // _MIB} of {taken.memory // _MIB} MiB of GPU {found.gpus.index(taken)}"
        f" ({wanted.product}) are in use by others; see nvidia-smi on the node for the process, and"
        " that the GPU is not shared"
    )


_CHECKS: Final[tuple[Callable[[Found, Device], str | None], ...]] = (
    count_differs,
    product_differs,
    memory_is_short,
    capability_differs,
    driver_is_too_old,
    memory_is_taken,
)


def _gpu(nvml: Any, handle: Any) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        product=_text(nvml.nvmlDeviceGetName(handle)),
        memory=int(memory.total),
        used=int(memory.used),
        capability=f"{major}.{minor}",
    )


def _label(product: str) -> str:
    """As in the label: NVML's "NVIDIA H200" with dashes (k8s-device-plugin, internal/lm)."""
    return "-".join(product.split())


def _branch(driver: str) -> int:
    branch = driver.partition(".")[0]
    return int(branch) if branch.isdecimal() else 0


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
