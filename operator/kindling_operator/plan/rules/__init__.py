"""The rules that options are judged by, as a book: one named function per rule, in order.

A rule takes a `Candidate` and says nothing or refuses; the first that speaks is heard. Add a rule
as one function in the chapter that it belongs to, and one line here. No rule is shown amounts, such
as the context (plan/question.py has the list): what is counted is compared in plan/fit.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kindling_operator.model.architecture import CapabilityStatus, Device
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.capabilities import (
    Feature,
    image_is_unknown,
    image_says_nothing,
    runtime_for,
    status_of,
)
from kindling_operator.plan.model_class import unverified_class
from kindling_operator.plan.rules import features, hardware, kvcache, parallelism, speculation
from kindling_operator.plan.subject import Subject

OptionRule = Callable[[Candidate], Refusal | None]
"""Why a candidate cannot be taken, or None."""

OPTION_RULES: tuple[OptionRule, ...] = (
    # The GPU and its node.
    hardware.image_is_not_built_for_the_cpu,
    hardware.driver_is_too_old,
    hardware.combination_is_broken,
    hardware.combination_is_unverified,
    hardware.image_lacks_a_package,
    hardware.checkpoint_needs_another_transformers,
    hardware.shares_have_no_memory,
    hardware.slices_do_not_add_up,
    # The layout.
    parallelism.tensor_is_no_size_of_the_model,
    parallelism.experts_are_cut_unevenly,
    parallelism.stages_outnumber_layers,
    parallelism.experts_are_spread_and_there_are_none,
    parallelism.expert_ranks_outnumber_experts,
    parallelism.data_ranks_of_a_dense_model_share_nothing,
    parallelism.layout_is_known_to_fail,
    parallelism.rust_frontend_has_no_balancing,
    # The KV cache.
    kvcache.convolutions_would_be_stretched,
    # Drafting.
    speculation.nothing_drafts,
    speculation.draft_is_no_multiple_of_the_depths,
    speculation.draft_is_longer_than_a_block,
    speculation.stages_break_drafting,
    speculation.drafting_is_known_to_fail,
    # What is wanted beside the model.
    features.adapters_do_not_work,
    features.host_tier_does_not_work,
    features.host_tier_spans_nodes,
    features.host_tier_holds_nothing,
)


def judge_option(candidate: Candidate) -> Refusal | None:
    """The first refusal, or None for a candidate that may be sized."""
    found = (rule(candidate) for rule in OPTION_RULES)
    return next((refusal for refusal in found if refusal is not None), None)


def unverified(candidate: Candidate) -> str:
    """What nobody has verified about a candidate that the user insists on; "" if nothing."""
    subject = candidate.subject
    used = [None, *_features(candidate)]
    found = (
        status_of(subject, candidate.checkpoint.name, candidate.gpu, feature) for feature in used
    )
    reasons = [
        known.reason
        for known in found
        if known is not None and known.status is CapabilityStatus.UNVERIFIED
    ]
    return "; ".join([*reasons, *filter(None, [unverified_on(subject, Device.GPU)])])


def unverified_on(subject: Subject, device: Device) -> str:
    """What nobody has verified about a model's image and class; "" if nothing."""
    said = (_unverified_image(subject, device), unverified_class(subject, device))
    return "; ".join(filter(None, said))


def _unverified_image(subject: Subject, device: Device) -> str:
    """What nobody has said of an image: everything, or what it does with the model; "" if known."""
    facts = runtime_for(subject, device)
    if device is Device.GPU and image_says_nothing(subject):
        own = subject.environment.own_runtime(device)
        return (
            f"the description of runtime image {facts.name} says nothing of"
            f" {subject.architecture.architecture}, so it is judged as with this release's own"
            f" image and its vLLM {own.vllm}"
        )
    if not image_is_unknown(subject, device):
        return ""
    return (
        "nobody has described spec.runtime.image by its digest, so it is judged as this release's"
        f" own image with vLLM {facts.vllm}"
    )


def _features(candidate: Candidate) -> Iterator[Feature]:
    layout, spec = candidate.layout, candidate.subject.spec
    wanted = {
        Feature.MTP: candidate.draft > 0,
        Feature.EXPERT_PARALLEL: layout.expert,
        Feature.DATA_PARALLEL: layout.data > 1,
        Feature.LORA: bool(spec.serving.adapters),
        Feature.HOST_TIER: bool(features.asked_host_memory(candidate.subject)),
    }
    return (feature for feature, used in wanted.items() if used)
