"""Rules on drafting: how many tokens the model's prediction layers may guess."""

from __future__ import annotations

from math import lcm

from kindling_operator.model.api_serving import SpeculationMode
from kindling_operator.model.architecture import CapabilityStatus, Device
from kindling_operator.model.conditions import Reason
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.capabilities import Feature, runtime_for, status_of
from kindling_operator.plan.kv import kv_layout

_OFF = "set spec.serving.speculation.mode Disabled"


def nothing_drafts(candidate: Candidate) -> Refusal | None:
    """Drafting needs prediction layers in the checkpoint (trap T9).

    Source: vLLM 0.33.0, config/speculative.py:1087-1104 (num_nextn_predict_layers >= 1).
    """
    if not candidate.draft or candidate.subject.architecture.draft is not None:
        return None
    return _invalid(
        f"{_asked(candidate)} and {candidate.subject.entry.title} has no prediction layers: {_OFF}."
    )


def draft_is_no_multiple_of_the_depths(candidate: Candidate) -> Refusal | None:
    """Beyond the number of prediction layers only whole rounds of them are drafted (trap T9).

    Source: vLLM 0.33.0, config/speculative.py:1601-1612.
    """
    heads = candidate.subject.architecture.draft
    if heads is None or candidate.draft <= heads.depths or candidate.draft % heads.depths == 0:
        return None
    return _invalid(
        f"{_asked(candidate)} and {candidate.subject.entry.title} has {heads.depths} prediction"
        f" layers: use 1 to {heads.depths}, or a multiple of {heads.depths}."
    )


def draft_is_longer_than_a_block(candidate: Candidate) -> Refusal | None:
    """With prefix caching a step's drafts must fit one block of the scheduler (trap T9).

    Source: vLLM 0.33.0, v1/core/kv_cache_coordinator.py:150-162.
    """
    if not candidate.draft:
        return None
    layout = kv_layout(
        candidate.subject.architecture,
        block_tokens=runtime_for(candidate.subject, Device.GPU).block_tokens,
        tensor_parallel=candidate.layout.tensor,
        draft=candidate.draft,
    )
    block = lcm(*(group.block_tokens for group in layout.groups))
    if candidate.draft <= block:
        return None
    return _invalid(
        f"{_asked(candidate)} and the scheduler's block has {block} tokens: use at most {block}."
    )


def stages_break_drafting(candidate: Candidate) -> Refusal | None:
    """The prediction layers find no embedding on the last pipeline stage (trap T9).

    Source: vLLM 0.33.0, v1/worker/gpu/spec_decode/eagle/utils.py:59-62, for every model; the
    capability MTPWithPP may lift it.
    """
    if not candidate.draft or candidate.layout.pipeline == 1:
        return None
    known = _known(candidate, Feature.MTP_WITH_PP)
    if known is CapabilityStatus.SUPPORTED:
        return None
    return _unsupported(
        f"{_asked(candidate)} and {candidate.layout.name} has {candidate.layout.pipeline} pipeline"
        f" stages, with which drafting fails: {_OFF}, or leave"
        " spec.placement.parallelism.pipeline out."
    )


def drafting_is_known_to_fail(candidate: Candidate) -> Refusal | None:
    """Drafting as the runtime's facts judge it for this model and GPU.

    Source: the capability's own. What is unverified is taken only if the user fixed the depth.
    """
    if not candidate.draft:
        return None
    known = status_of(candidate.subject, candidate.checkpoint.name, candidate.gpu, Feature.MTP)
    if known is None or known.status is CapabilityStatus.SUPPORTED:
        return None
    fixed = candidate.subject.spec.serving.speculation.mode is SpeculationMode.FIXED
    if known.status is CapabilityStatus.UNVERIFIED and fixed:
        return None
    return _unsupported(
        f"{_asked(candidate)} and that is {known.status.value.lower()} for {candidate.title},"
        f" {known.reason}: {_OFF}."
    )


def _known(candidate: Candidate, feature: Feature) -> CapabilityStatus | None:
    known = status_of(candidate.subject, candidate.checkpoint.name, candidate.gpu, feature)
    return known.status if known is not None else None


def _asked(candidate: Candidate) -> str:
    if candidate.subject.spec.serving.speculation.mode is SpeculationMode.FIXED:
        return f"spec.serving.speculation.tokens is {candidate.draft}"
    plural = "s" if candidate.draft > 1 else ""
    return f"{candidate.draft} token{plural} would be drafted"


def _invalid(message: str) -> Refusal:
    return Refusal(Reason.INVALID_SPEC, message)


def _unsupported(message: str) -> Refusal:
    return Refusal(Reason.BROKEN_COMBINATION, message)
