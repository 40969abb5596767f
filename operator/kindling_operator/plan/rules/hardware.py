"""Rules on the GPU and its node: whether the image runs there at all."""

from __future__ import annotations

from kindling_operator.model.architecture import CapabilityStatus, Checkpoint, Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.objects import GpuShare
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.capabilities import (
    image_is_unknown,
    insisted_on,
    needs_of,
    runtime_for,
    status_of,
    supported_families,
)
from kindling_operator.plan.listing import joined
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.versions import is_too_old, overlap


def image_is_not_built_for_the_cpu(candidate: Candidate) -> Refusal | None:
    """GB200 nodes are arm64: a container of another architecture does not start.

    Source: `cpuArchitectures` of the runtime. Of an image that nobody described only its owner
    knows.
    """
    subject = candidate.subject
    built_for = runtime_for(subject, Device.GPU).cpu_architectures
    found = candidate.gpu.architecture
    if not found or found in built_for or image_is_unknown(subject, Device.GPU):
        return None
    return Refusal(
        Reason.NO_SUPPORTED_GPU,
        f"The nodes with {candidate.gpu.product} are {found} and the runtime image is built for"
        f" {' and '.join(built_for)}: use other nodes or an image for {found}.",
    )


def driver_is_too_old(candidate: Candidate) -> Refusal | None:
    """A CUDA toolkit needs a driver of its own branch or a later one.

    Source: `driver` and `cuda` of the runtime (NVIDIA's release notes); the kernel module of an
    older branch ends the engine with "CUDA driver version is insufficient".
    """
    facts = runtime_for(candidate.subject, Device.GPU)
    found = candidate.gpu.driver
    if not is_too_old(found, facts.driver):
        return None
    return Refusal(
        Reason.NO_SUPPORTED_GPU,
        f"The nodes with {candidate.gpu.product} have NVIDIA driver {found} and the runtime image's"
        f" CUDA {facts.cuda} needs {facts.driver} or later: upgrade the driver of these nodes.",
    )


def checkpoint_needs_another_transformers(candidate: Candidate) -> Refusal | None:
    """A checkpoint's own files may need releases of transformers that this vLLM does not take.

    Source: `transformers` of the runtime (vLLM's METADATA) and of the checkpoint.
    """
    problem = transformers_problem(candidate.subject, candidate.checkpoint, Device.GPU)
    return None if problem is None else Refusal(Reason.BROKEN_COMBINATION, problem)


def transformers_problem(subject: Subject, checkpoint: Checkpoint, device: Device) -> str | None:
    """What a checkpoint needs and the image does not have, in one sentence; None if it fits."""
    facts, wanted = runtime_for(subject, device), checkpoint.transformers or ""
    if overlap(wanted, facts.transformers):
        return None
    return (
        f"{subject.entry.title} {checkpoint.name.value} needs transformers {wanted} and the runtime"
        f" image {facts.name} (vLLM {facts.vllm}) has {facts.transformers}: describe an image that"
        " has it under the chart's `runtimes` and name it in spec.runtime.image, or use another"
        " checkpoint."
    )


def shares_have_no_memory(candidate: Candidate) -> Refusal | None:
    """Every time share of a GPU sees the whole memory and none of it is its own: of two engines
    that take what they see, one ends.

    Source: NVIDIA's k8s-device-plugin, README (shared access to GPUs: no memory limits, and none
    that the labels tell under MPS).
    """
    if candidate.gpu.share is not GpuShare.TIME:
        return None
    return Refusal(
        Reason.NO_SUPPORTED_GPU,
        f"The nodes share each {candidate.gpu.product} out in time, which gives an engine no memory"
        " of its own: switch time-slicing and MPS off on them (nvidia.com/gpu.replicas 1), use MIG"
        " slices, or select other nodes with spec.placement.nodeSelector.",
    )


def slices_do_not_add_up(candidate: Candidate) -> Refusal | None:
    """No collective runs between MIG slices.

    Source: NVIDIA's MIG user guide (no peer-to-peer and no NCCL between instances).
    """
    if candidate.gpu.share is not GpuShare.SLICE or candidate.layout.gpus == 1:
        return None
    return Refusal(
        Reason.UNSUPPORTED_PARALLELISM,
        f"{candidate.layout.name} needs {candidate.layout.gpus} GPUs that talk to each other and"
        f" the nodes offer slices of {candidate.gpu.product}: use whole GPUs, or a model that fits"
        " one slice.",
    )


def combination_is_broken(candidate: Candidate) -> Refusal | None:
    """The model's kernels are known to fail on this family of GPUs (traps T3, T5).

    Source: the capability's own.
    """
    known = status_of(candidate.subject, candidate.checkpoint.name, candidate.gpu)
    if known is None or known.status is not CapabilityStatus.BROKEN:
        return None
    families = supported_families(candidate.subject)
    way_out = f"use GPUs of {joined(families, 'or')}" if families else "use another image"
    return Refusal(
        Reason.BROKEN_COMBINATION,
        f"{candidate.title} is known to fail, {known.reason}: {way_out}.",
    )


def combination_is_unverified(candidate: Candidate) -> Refusal | None:
    """What nobody has run is taken only by a user who insists on it.

    Source: the capability's own.
    """
    subject = candidate.subject
    known = status_of(subject, candidate.checkpoint.name, candidate.gpu)
    if known is None or known.status is not CapabilityStatus.UNVERIFIED:
        return None
    if insisted_on(subject, known, candidate.gpu):
        return None
    pin = (
        f"spec.model.checkpoint {candidate.checkpoint.name.value}"
        if known.checkpoint is not None
        else f"spec.placement.gpu.products {candidate.gpu.product}"
    )
    return Refusal(
        Reason.NO_SUPPORTED_GPU,
        f"{candidate.title} is unverified, {known.reason}: pin {pin} to take it nevertheless.",
    )


def image_lacks_a_package(candidate: Candidate) -> Refusal | None:
    """Without an importable extra the engine ends, some after the weights are loaded.

    Traps T6 (flashinfer-cubin), T7 (gguf) and T32 (nvidia-cutlass-dsl-libs-core,
    pydantic-extra-types). Source: the need's own.
    """
    subject = candidate.subject
    facts = runtime_for(subject, Device.GPU)
    needs = needs_of(subject, candidate.checkpoint)
    lacking = next((need for need in needs if need.package not in facts.packages), None)
    if lacking is None:
        return None
    return Refusal(
        Reason.BROKEN_COMBINATION,
        f"The runtime image {facts.name} (vLLM {facts.vllm}) has no {lacking.package},"
        f" {lacking.reason}: add it to the image, or use the release's own.",
    )
