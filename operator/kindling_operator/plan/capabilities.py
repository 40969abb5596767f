"""What a runtime image is known to do with a model: looked up, never computed.

The facts are data (catalog/runtimes); the image that a model runs decides which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from kindling_operator.model.architecture import (
    Capability,
    CapabilityStatus,
    Checkpoint,
    CheckpointName,
    Device,
)
from kindling_operator.model.runtime import (
    EngineFacts,
    KernelChoice,
    ModelOnRuntime,
    PackageNeed,
    RuntimeFacts,
)
from kindling_operator.model.status import AttentionBackend
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.subject import Subject


class Feature(StrEnum):
    """What a capability can be about beside the bare model."""

    MTP = "MTP"
    MTP_WITH_PP = "MTPWithPP"
    EXPERT_PARALLEL = "ExpertParallel"
    DATA_PARALLEL = "DataParallel"
    LORA = "LoRA"
    HOST_TIER = "HostTier"
    DISAGGREGATION = "Disaggregation"
    SPLIT_KV = "SplitKV"


def image_of(subject: Subject, device: Device) -> str:
    """The image that the model's pods run on that device."""
    own = subject.spec.runtime.image if subject.spec.runtime is not None else None
    environment = subject.environment
    return own or (environment.cpu_image if device is Device.CPU else environment.cuda_image)


def runtime_for(subject: Subject, device: Device) -> RuntimeFacts:
    """The facts that the model is judged by: of its image, else of this release's own."""
    return subject.environment.runtime(image_of(subject, device), device)


def image_is_unknown(subject: Subject, device: Device) -> bool:
    """Whether nobody has described the image that the model asks for."""
    own = subject.spec.runtime.image if subject.spec.runtime is not None else None
    return bool(own) and not subject.environment.describes(image_of(subject, device), device)


def engine_of(subject: Subject, device: Device) -> EngineFacts | None:
    """What the vLLM of the model's image knows; None where nobody has told."""
    if image_is_unknown(subject, device):
        return None
    return runtime_for(subject, device).engine


def cpu_architectures(subject: Subject) -> tuple[str, ...]:
    """What the CPU image runs on; empty where only the user knows, whose image it is."""
    if image_is_unknown(subject, Device.CPU):
        return ()
    return runtime_for(subject, Device.CPU).cpu_architectures


def status_of(
    subject: Subject,
    checkpoint: CheckpointName,
    gpu: GpuClass,
    feature: Feature | None = None,
) -> Capability | None:
    """What is known of a checkpoint on a class of GPU; the first entry that matches counts.

    None where nothing is known, as for an architecture that nobody has described.
    """
    known = model_on(subject)
    if known is None:
        return None
    return next(
        (
            each
            for each in known.capabilities
            if each.feature == feature
            and each.gpu_architecture in (None, gpu.capability)
            and each.checkpoint in (None, checkpoint)
        ),
        None,
    )


def insisted_on(subject: Subject, known: Capability, gpu: GpuClass) -> bool:
    """Whether the user pins what a bare-model capability is about: the checkpoint, else the GPU."""
    if known.checkpoint is not None:
        return subject.spec.model.checkpoint.pinned is known.checkpoint
    placement = subject.spec.placement
    wanted = placement.gpu if placement is not None else None
    return wanted is not None and gpu.product in wanted.products


def supported_families(subject: Subject) -> tuple[str, ...]:
    """The GPU families that the model is known to run on, in the order of the facts."""
    known = model_on(subject)
    found = (
        each.gpu_architecture
        for each in (known.capabilities if known is not None else ())
        if each.feature is None
        and each.status is CapabilityStatus.SUPPORTED
        and each.gpu_architecture is not None
    )
    return tuple(dict.fromkeys(found))


def kernels(subject: Subject, gpu: GpuClass) -> tuple[tuple[str, KernelChoice], ...]:
    """The attention kernel of each KV group by the group's name; groups nobody described lack."""
    known = model_on(subject)
    if known is None:
        return ()
    return tuple(
        (group.name, choice)
        for group in subject.architecture.attention
        for choice in _first(known.kernels, group.kind.value, gpu)
    )


def attention_backends(subject: Subject, gpu: GpuClass) -> tuple[AttentionBackend, ...]:
    """The attention kernels for `status.plan`."""
    return tuple(
        AttentionBackend(group=name, backend=choice.backend)
        for name, choice in kernels(subject, gpu)
    )


def model_on(subject: Subject) -> ModelOnRuntime | None:
    """What is known of the model on GPUs: with its image, else with this release's own.

    A description of an image that says nothing of the model takes back nothing that is known.
    """
    name = subject.architecture.architecture
    own = subject.environment.own_runtime(Device.GPU)
    return runtime_for(subject, Device.GPU).on(name) or own.on(name)


def needs_of(subject: Subject, checkpoint: Checkpoint) -> tuple[PackageNeed, ...]:
    """The extras without which a checkpoint does not run on GPUs, whatever the image has."""
    model = model_on(subject)
    return tuple(
        need
        for need in (model.needs if model is not None else ())
        if need.checkpoint in (None, checkpoint.name)
    )


def image_says_nothing(subject: Subject) -> bool:
    """Whether the model is judged by what is known with another image than its own."""
    facts = runtime_for(subject, Device.GPU)
    return model_on(subject) is not None and not facts.on(subject.architecture.architecture)


def _first(choices: Sequence[KernelChoice], kind: str, gpu: GpuClass) -> tuple[KernelChoice, ...]:
    found = (
        each
        for each in choices
        if each.kind.value == kind
        and (not each.gpu_architectures or gpu.capability in each.gpu_architectures)
    )
    return tuple(found)[:1]
