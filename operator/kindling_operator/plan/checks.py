"""Is a spec acceptable, before any GPU is looked at: named checks, in order, first one speaks.

Each check reads as the fact that it finds. A rule is added as one function and one line of
`CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kindling_operator.model.api_model import ModelName
from kindling_operator.model.api_serving import SpeculationMode
from kindling_operator.model.architecture import Device, Modality
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import Verdict
from kindling_operator.model.quantities import duration_seconds
from kindling_operator.plan import checks_arguments as arguments
from kindling_operator.plan import checks_serving as serving
from kindling_operator.plan.architecture import architecture_problem
from kindling_operator.plan.model_class import class_generates_no_text
from kindling_operator.plan.pins import wants_several
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.revision import beside_the_plan
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.unsupported import UNSUPPORTED

_WEEK_SECONDS = 7 * 86_400

Check = Callable[[Subject], Verdict | None]
"""Why the spec is refused, or None."""


def unknown_model(name: str, known: tuple[str, ...]) -> Verdict:
    """The verdict on a model that neither the catalog nor the spec describes."""
    return refusal(
        Reason.UNKNOWN_MODEL,
        f"spec.model.name {name!r} is not in this operator's catalog, which has"
        f" {', '.join((*known, ModelName.CUSTOM.value))}: upgrade the operator or choose one of"
        " these.",
    )


def field_is_not_yet_supported(subject: Subject) -> Verdict | None:
    """Nothing is silently ignored."""
    problems = (field.problem(subject.spec) for field in UNSUPPORTED)
    problem = next((p for p in problems if p is not None), None)
    return None if problem is None else refusal(Reason.NOT_YET_SUPPORTED, problem)


def weights_are_nowhere(subject: Subject) -> Verdict | None:
    """Without a URI the catalog's repository is meant, if there is one."""
    if subject.weights.uri is not None:
        return None
    if all(checkpoint.repository for checkpoint in subject.architecture.checkpoints):
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.model.weights.uri is not given and no repository of {subject.entry.name} is known:"
        " write hf://ORG/NAME, s3://BUCKET/PREFIX or pvc://CLAIM/PATH.",
    )


def weights_uri_is_short(subject: Subject) -> Verdict | None:
    """What a download needs beside the scheme."""
    uri = subject.weights.uri or ""
    scheme, _, rest = uri.partition("://")
    if scheme == "hf" and not all(rest.partition("/")[::2]):
        lacks, fix = "names no repository", "hf://ORG/NAME"
    elif scheme == "az" and not rest.partition("/")[0].partition("@")[2]:
        lacks, fix = "names no storage account", "az://CONTAINER@ACCOUNT/PREFIX"
    else:
        return None
    return refusal(Reason.INVALID_SPEC, f"spec.model.weights.uri {uri} {lacks}: write {fix}.")


def token_is_for_nobody(subject: Subject) -> Verdict | None:
    """Object stores know the pod by its ServiceAccount, and what is local asks for nothing."""
    uri = subject.weights.uri
    if subject.weights.token_secret_ref is None or uri is None or uri.startswith("hf://"):
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.model.weights.tokenSecretRef is for hf:// and spec.model.weights.uri is {uri}:"
        " remove it.",
    )


def architecture_does_not_add_up(subject: Subject) -> Verdict | None:
    """A custom architecture is checked before any memory is computed from it."""
    problem = architecture_problem(subject.architecture)
    if problem is None:
        return None
    return refusal(Reason.INVALID_ARCHITECTURE, f"spec.model.custom: {problem}.")


def checkpoint_does_not_exist(subject: Subject) -> Verdict | None:
    """A pinned checkpoint is one that the model has."""
    pinned = subject.spec.model.checkpoint.pinned
    if pinned is None or subject.architecture.checkpoint(pinned) is not None:
        return None
    known = " and ".join(c.name.value for c in subject.architecture.checkpoints)
    return refusal(
        Reason.UNSUPPORTED_CHECKPOINT,
        f"spec.model.checkpoint {pinned.value} does not exist for {subject.entry.name}, which has"
        f" {known}: use {known} or Auto.",
    )


def context_is_longer_than_the_model(subject: Subject) -> Verdict | None:
    """The engine refuses a context beyond the model's own maximum."""
    wanted, most = subject.spec.serving.context_length, subject.architecture.context_length
    if wanted is None or wanted <= most:
        return None
    return refusal(
        Reason.CONTEXT_TOO_LONG,
        f"spec.serving.contextLength {wanted} exceeds the {most} tokens that {subject.entry.name}"
        f" was made for: lower it to {most}.",
    )


def modality_is_not_the_models(subject: Subject) -> Verdict | None:
    """A request may contain what the model understands, and always text."""
    wanted, known = subject.spec.serving.modalities, subject.architecture.modalities
    names = ", ".join(known)
    for modality in wanted or ():
        if modality not in known:
            return refusal(
                Reason.INVALID_SPEC,
                f"spec.serving.modalities has {modality.value}, which {subject.entry.name} does"
                f" not understand: use {names}.",
            )
    if wanted is not None and Modality.TEXT not in wanted:
        return refusal(
            Reason.INVALID_SPEC,
            f"spec.serving.modalities {', '.join(wanted)} has no Text, which every request"
            " contains: add it.",
        )
    return None


def gpu_is_asked_of_a_cpu_model(subject: Subject) -> Verdict | None:
    """GPU wishes mean nothing to a model that runs on CPU only."""
    placement = subject.spec.placement
    if placement is None or placement.gpu is None or Device.GPU in subject.architecture.devices:
        return None
    return refusal(
        Reason.NO_SUPPORTED_GPU,
        f"spec.placement.gpu is given and {subject.entry.name} runs on CPU only: remove it, or add"
        " GPU to spec.model.custom.devices.",
    )


def ranks_are_asked_of_a_cpu_model(subject: Subject) -> Verdict | None:
    """A model that computes on CPU is one rank."""
    if Device.GPU in subject.architecture.devices or not wants_several(subject):
        return None
    return refusal(
        Reason.UNSUPPORTED_PARALLELISM,
        f"spec.placement.parallelism asks for several GPUs and {subject.entry.name} runs on CPU"
        " only: remove it, or add GPU to spec.model.custom.devices.",
    )


def drafts_are_asked_of_a_cpu_model(subject: Subject) -> Verdict | None:
    """Drafting is planned for GPUs only."""
    speculation = subject.spec.serving.speculation
    fixed = speculation.mode is SpeculationMode.FIXED
    if not fixed or Device.GPU in subject.architecture.devices:
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.serving.speculation.tokens is {speculation.tokens} and {subject.entry.name} runs on"
        " CPU only, where nothing is drafted: set spec.serving.speculation.mode Disabled.",
    )


def drain_is_longer_than_a_week(subject: Subject) -> Verdict | None:
    """A launch plan has no longer one (runtime contract), and a node drain would wait for it."""
    asked = subject.spec.rollout.drain_deadline
    if duration_seconds(asked) <= _WEEK_SECONDS:
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.rollout.drainDeadline {asked} exceeds 168h, the longest that a pod waits: lower it.",
    )


CHECKS: tuple[Check, ...] = (
    field_is_not_yet_supported,
    weights_uri_is_short,
    token_is_for_nobody,
    architecture_does_not_add_up,
    serving.architecture_is_gone_from_vllm,
    class_generates_no_text,
    serving.cpu_image_has_another_transformers,
    checkpoint_does_not_exist,
    context_is_longer_than_the_model,
    modality_is_not_the_models,
    arguments.argument_is_forbidden,
    arguments.argument_is_no_option,
    serving.media_are_fetched_for_nobody,
    serving.rust_frontend_is_not_in_the_image,
    serving.rust_frontend_fetches_from_everywhere,
    arguments.rust_frontend_ends_at_an_argument,
    serving.adapters_are_for_other_models,
    serving.adapter_is_out_of_reach,
    serving.adapter_has_the_models_name,
    serving.host_tier_has_no_gpu,
    serving.encoder_tier_has_nothing_to_keep,
    gpu_is_asked_of_a_cpu_model,
    ranks_are_asked_of_a_cpu_model,
    drafts_are_asked_of_a_cpu_model,
    drain_is_longer_than_a_week,
)


BESIDE_THE_PLAN: tuple[Check, ...] = (field_is_not_yet_supported, drain_is_longer_than_a_week)
"""The checks that look at fields which no plan depends on."""


def judge(subject: Subject) -> Verdict | None:
    """The first refusal, or None for a spec that can be planned."""
    return _first(CHECKS, subject)


def judge_beside_the_plan(subject: Subject) -> Verdict | None:
    """The first refusal of what a stored plan does not answer for, or None.

    A plan that is stored was accepted, and stays so when a newer operator would refuse its inputs.
    """
    spec = beside_the_plan(subject.spec)
    return _first(BESIDE_THE_PLAN, replace(subject, model=replace(subject.model, spec=spec)))


def _first(checks: Sequence[Check], subject: Subject) -> Verdict | None:
    verdicts = (check(subject) for check in checks)
    return next((verdict for verdict in verdicts if verdict is not None), None)
