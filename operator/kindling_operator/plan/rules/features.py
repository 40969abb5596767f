"""Rules on what is wanted beside the bare model: adapters and the tier in host memory."""

from __future__ import annotations

from kindling_operator.model.architecture import Capability, CapabilityStatus
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import Layout
from kindling_operator.model.quantities import format_bytes, quantity_bytes
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.capabilities import Feature, status_of
from kindling_operator.plan.offload import kv_layout_of, least_tier_bytes
from kindling_operator.plan.subject import Subject


def adapters_do_not_work(candidate: Candidate) -> Refusal | None:
    """LoRA as the runtime's facts judge it for this model, checkpoint and GPU (trap T12).

    Source: the capability's own. Who lists adapters insists on them.
    """
    if not candidate.subject.spec.serving.adapters:
        return None
    known = _broken(candidate, Feature.LORA)
    if known is None:
        return None
    return Refusal(
        Reason.BROKEN_COMBINATION,
        f"spec.serving.adapters is given and {candidate.title} cannot have any, {known.reason}:"
        " remove it.",
    )


def host_tier_does_not_work(candidate: Candidate) -> Refusal | None:
    """The tier in host memory as the runtime's facts judge it for this model and GPU.

    Source: the capability's own. Who gives a size insists on it.
    """
    if not asked_host_memory(candidate.subject):
        return None
    known = _broken(candidate, Feature.HOST_TIER)
    if known is None:
        return None
    return Refusal(
        Reason.BROKEN_COMBINATION,
        f"spec.cache.hostMemory is given and {candidate.title} cannot use it, {known.reason}: set"
        " it to 0.",
    )


def host_tier_spans_nodes(candidate: Candidate) -> Refusal | None:
    """The tier lies in one node's /dev/shm, and ranks of another node never see it (trap T13).

    Source: vLLM 0.33.0, v1/kv_offload/cpu/shared_offload_region.py; nothing there guards it.
    """
    cache = candidate.subject.spec.cache
    if cache is None or not asked_host_memory(candidate.subject):
        return None
    if not engine_spans_nodes(candidate.layout):
        return None
    return Refusal(
        Reason.UNSUPPORTED_PARALLELISM,
        f"spec.cache.hostMemory {cache.host_memory} lies in the memory of one node"
        f" and {candidate.layout.name} has one engine on {candidate.layout.nodes} nodes: set it to"
        " 0.",
    )


def host_tier_holds_nothing(candidate: Candidate) -> Refusal | None:
    """A tier that cannot hold the end of one prompt never gives a hit (trap T15).

    Source: plan/offload.py, from vLLM 0.33.0's store mask and lookup.
    """
    cache = candidate.subject.spec.cache
    asked = asked_host_memory(candidate.subject)
    if cache is None or not asked:
        return None
    least = least_tier_bytes(kv_layout_of(candidate), tensor=candidate.layout.tensor)
    if asked >= least:
        return None
    return Refusal(
        Reason.INVALID_SPEC,
        f"spec.cache.hostMemory {cache.host_memory} is less than the {format_bytes(least)} that one"
        f" prompt of {candidate.subject.entry.title} takes with {candidate.layout.name}: give it"
        " at least so much, or 0.",
    )


def asked_host_memory(subject: Subject) -> int | None:
    """Bytes that the user gives the tier, 0 to switch it off, None where the plan may choose."""
    cache = subject.spec.cache
    if cache is None or cache.host_memory is None:
        return None
    return quantity_bytes(cache.host_memory)


def engine_spans_nodes(layout: Layout) -> bool:
    """Whether the ranks of one engine (tensor x pipeline) lie on several nodes."""
    return layout.tensor * layout.pipeline > layout.gpus_per_node


def _broken(candidate: Candidate, feature: Feature) -> Capability | None:
    """What is known of a feature that is known to fail."""
    known = status_of(candidate.subject, candidate.checkpoint.name, candidate.gpu, feature)
    return known if known is not None and known.status is CapabilityStatus.BROKEN else None
