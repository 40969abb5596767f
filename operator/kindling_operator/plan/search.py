"""Every way to serve a model on the nodes that exist, in the order of preference.

An option is a checkpoint on a class of device. One that cannot work is kept with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kindling_operator.model.architecture import Checkpoint, CheckpointName, Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.objects import NodeView
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import cpu_architectures
from kindling_operator.plan.devices import (
    GpuClass,
    gpu_classes,
    titles,
    usable_nodes,
    wanted_class,
)
from kindling_operator.plan.rules import judge_option, unverified, unverified_image
from kindling_operator.plan.sizing import Misfit, Sizing, cpu_sizing, gpu_sizing
from kindling_operator.plan.subject import Subject

_PRECISION = {CheckpointName.BF16: 16, CheckpointName.NVFP4: 4}


@dataclass(frozen=True, slots=True)
class Option:
    """A checkpoint on CPU (`gpu` None) or on one GPU of a class, with the nodes that have it.

    `name` is what people read, unique among the candidates of one search. `warning` is set where
    the combination is unverified and the user insists on it. `draft` tokens are drafted per step.
    """

    name: str
    checkpoint: Checkpoint
    gpu: GpuClass | None
    sizing: Sizing
    nodes: tuple[NodeView, ...]
    warning: str = ""
    layout: Layout = ONE_GPU
    draft: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """An option that cannot be taken; `reason` as in status, `short` the bytes that lack."""

    name: str
    reason: Reason
    message: str
    short: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """What was found: options that fit, best first, and the others, nearest first."""

    options: tuple[Option, ...]
    rejected: tuple[Rejected, ...]


def search(subject: Subject, nodes: Iterable[NodeView]) -> Search:
    """Judge every candidate against the nodes, as if all of their GPUs were free."""
    found = [*_on_gpus(subject, nodes), *_on_cpu(subject, nodes)]
    options = sorted((o for o in found if isinstance(o, Option)), key=_preference)
    rejected = sorted((r for r in found if isinstance(r, Rejected)), key=_nearness)
    return Search(tuple(options), tuple(rejected))


def _on_gpus(subject: Subject, nodes: Iterable[NodeView]) -> Iterator[Option | Rejected]:
    if Device.GPU not in subject.architecture.devices:
        return
    placement = subject.spec.placement
    usable = usable_nodes(nodes, placement, gpu=True)
    wanted = (gpu for gpu in gpu_classes(usable) if wanted_class(gpu, placement))
    for gpu, title in titles(wanted).items():
        for checkpoint in _checkpoints(subject):
            name = f"{checkpoint.name.value} on 1 x {title}"
            yield _on_gpu(subject, checkpoint, gpu, name=name, nodes=usable)


def _on_gpu(
    subject: Subject,
    checkpoint: Checkpoint,
    gpu: GpuClass,
    *,
    name: str,
    nodes: tuple[NodeView, ...],
) -> Option | Rejected:
    candidate = Candidate(subject, checkpoint, gpu)
    refused = judge_option(candidate)
    if refused is not None:
        return Rejected(name, refused.reason, refused.message)
    sizing = gpu_sizing(subject, checkpoint, gpu)
    if isinstance(sizing, Misfit):
        return Rejected(name, sizing.reason, sizing.message, sizing.short)
    return Option(
        name,
        checkpoint,
        gpu,
        sizing,
        nodes=tuple(node for node in nodes if gpu.has(node)),
        warning=unverified(candidate),
    )


def _on_cpu(subject: Subject, nodes: Iterable[NodeView]) -> Iterator[Option]:
    placement = subject.spec.placement
    gpu_only = placement is not None and placement.gpu is not None
    if Device.CPU not in subject.architecture.devices or gpu_only:
        return
    usable = usable_nodes(nodes, placement, gpu=False)
    built_for = cpu_architectures(subject)
    for checkpoint in _checkpoints(subject):
        sizing = cpu_sizing(subject, checkpoint)
        large = tuple(
            node
            for node in usable
            if node.memory >= sizing.memory
            and node.cpu_millis >= sizing.cpu_millis
            and (not built_for or node.architecture in built_for)
        )
        yield Option(
            f"{checkpoint.name.value} on CPU",
            checkpoint,
            None,
            sizing,
            large,
            warning=unverified_image(subject, Device.CPU),
        )


def _checkpoints(subject: Subject) -> tuple[Checkpoint, ...]:
    pinned = subject.spec.model.checkpoint.pinned
    return tuple(c for c in subject.architecture.checkpoints if pinned in (None, c.name))


def _preference(option: Option) -> tuple[bool, int, int, int, str, str]:
    """GPUs before CPU, then the higher precision, then the newer and the larger GPU, then name."""
    gpu = option.gpu
    newer = int(gpu.capability.removeprefix("sm")) if gpu is not None else 0
    return (
        gpu is None,
        -_PRECISION[option.checkpoint.name],
        -newer,
        -gpu.memory if gpu is not None else 0,
        gpu.product if gpu is not None else "",
        option.name,
    )


_NEARNESS = (
    Reason.CONTEXT_DOES_NOT_FIT,
    Reason.WEIGHTS_DO_NOT_FIT,
    Reason.INVALID_SPEC,
    Reason.UNSUPPORTED_PARALLELISM,
    Reason.NO_SUPPORTED_GPU,
    Reason.BROKEN_COMBINATION,
)


def _nearness(rejected: Rejected) -> tuple[int, int, str]:
    return _NEARNESS.index(rejected.reason), rejected.short, rejected.name
