"""Which nodes a model may use, and which classes of GPU they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kindling_operator.model.api_placement import Placement, TaintEffect, Toleration
from kindling_operator.model.api_placement import TolerationOperator as Operator
from kindling_operator.model.names import GPU_RESOURCE, LABEL_GPU_MAJOR, LABEL_GPU_MINOR
from kindling_operator.model.objects import GpuShare, NodeView, Taint
from kindling_operator.model.quantities import quantity_bytes
from kindling_operator.plan.listing import few
from kindling_operator.plan.versions import branch_of

GPU_TOLERATION = Toleration(
    key=GPU_RESOURCE, operator=Operator.EXISTS, effect=TaintEffect.NO_SCHEDULE
)
"""Clusters keep other work off GPU nodes with this taint; every GPU pod of ours tolerates it."""

_REPELLING = {TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value}


@dataclass(frozen=True, slots=True, order=True)
class GpuClass:
    """GPUs that are interchangeable: `capability` such as sm90, `memory` bytes of one GPU.

    `architecture` is that of the node's CPU, which the image must have been built for. `driver` is
    the branch of NVIDIA's driver (580 of 580.65.06), 0 where the node does not say: CUDA's floor is
    a branch (CUDA compatibility guide, minor version compatibility). `share` is how much of a GPU
    one of them is.
    """

    product: str
    capability: str
    memory: int
    architecture: str
    driver: int = 0
    share: GpuShare = GpuShare.WHOLE


def gpu_class(node: NodeView) -> GpuClass | None:
    """The class of a node's GPUs; None if it has none or does not say which."""
    labelled = node.labels.get(LABEL_GPU_MAJOR, "") + node.labels.get(LABEL_GPU_MINOR, "0")
    version = node.compute.replace(".", "") or labelled
    described = node.gpu_product and node.gpu_memory and version.isdecimal() and len(version) > 1
    if not node.gpus or not described:
        return None
    return GpuClass(
        node.gpu_product,
        f"sm{version}",
        node.gpu_memory,
        node.architecture,
        driver=branch_of(node.driver),
        share=node.share,
    )


def compute_capability(gpu: GpuClass) -> str:
    """9.0 of sm90, 10.3 of sm103: the last digit is the minor version."""
    digits = gpu.capability.removeprefix("sm")
    return f"{digits[:-1]}.{digits[-1]}"


def titles(classes: Iterable[GpuClass]) -> dict[GpuClass, str]:
    """Each class as people read it, with the memory or driver where the rest does not tell it."""
    all_of = tuple(classes)
    found: dict[GpuClass, str] = {}
    for details in ((), (_memory,), (_driver,), (_memory, _driver)):
        texts = {each: _title(each, *(detail(each) for detail in details)) for each in all_of}
        counts = Counter(texts.values())
        for each, text in texts.items():
            if counts[text] == 1:
                found.setdefault(each, text)
    return {each: found[each] for each in all_of}


def _title(gpu: GpuClass, *details: str) -> str:
    shared = (gpu.share.value,) if gpu.share is not GpuShare.WHOLE else ()
    return f"{gpu.product} ({', '.join((gpu.capability, gpu.architecture, *shared, *details))})"


def _memory(gpu: GpuClass) -> str:
    # MiB is the unit of the node's label: two classes never read the same.
    return f"{gpu.memory >> 20} MiB"


def _driver(gpu: GpuClass) -> str:
    return f"driver {gpu.driver or 'unknown'}"


def wanted_class(found: GpuClass, placement: Placement | None) -> bool:
    """Whether ``spec.placement.gpu`` admits a class."""
    wanted = placement.gpu if placement is not None else None
    if wanted is None:
        return True
    if wanted.products and found.product not in wanted.products:
        return False
    return wanted.min_memory is None or found.memory >= quantity_bytes(wanted.min_memory)


def selector_text(placement: Placement | None) -> str:
    """The node selector as a person writes it, or ""; a long one by its first labels."""
    labels = placement.node_selector if placement is not None else {}
    return few([f"{key}={value}" for key, value in sorted(labels.items())])


def admits(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether pods with these tolerations may be scheduled past these taints."""
    return next(repelling(taints, tolerations), None) is None


def repelling(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Iterator[Taint]:
    """The taints that keep pods with these tolerations away."""
    for taint in taints:
        if taint.effect in _REPELLING and not any(_tolerates(t, taint) for t in tolerations):
            yield taint


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Kubernetes' own rule (core/v1 Toleration): no key with Exists tolerates everything."""
    if toleration.effect is not None and toleration.effect.value != taint.effect:
        return False
    if toleration.key is None:
        return toleration.operator is Operator.EXISTS
    if toleration.key != taint.key:
        return False
    return toleration.operator is Operator.EXISTS or (toleration.value or "") == taint.value
