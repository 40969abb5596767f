"""Checks of ``spec.serving`` and ``spec.cache``: media, adapters, the Rust frontend, host memory.

Named checks as in plan/checks.py, which has their order.
"""

from __future__ import annotations

from kindling_operator.model.api_serving import Frontend
from kindling_operator.model.architecture import CapabilityStatus, Device, Modality
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import Verdict
from kindling_operator.plan.capabilities import (
    Feature,
    image_is_unknown,
    model_on,
    runtime_for,
)
from kindling_operator.plan.media import encoder_bytes, takes_media
from kindling_operator.plan.mounts import LOCAL_SCHEMES, is_local, weights_mount
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.rules.features import asked_host_memory
from kindling_operator.plan.rules.hardware import transformers_problem
from kindling_operator.plan.subject import Subject

RUST = "vllm-rs"
"""The package that has the Rust frontend."""


def architecture_is_gone_from_vllm(subject: Subject) -> Verdict | None:
    """A newer vLLM may have dropped a model class (upgrade checklist).

    Source: `removed` of the runtime, from vLLM's own list. An image that nobody described may be
    older.
    """
    name = subject.architecture.architecture
    for device in subject.architecture.devices:
        facts = runtime_for(subject, device)
        last = facts.removed.get(name)
        if last is not None and not image_is_unknown(subject, device):
            return refusal(
                Reason.INVALID_ARCHITECTURE,
                f"spec.model.custom.architecture {name} was removed from vLLM after {last}, and the"
                f" runtime image has {facts.vllm}: describe an image with vLLM {last} under the"
                " chart's `runtimes` and name it in spec.runtime.image, or serve another model.",
            )
    return None


def cpu_image_has_another_transformers(subject: Subject) -> Verdict | None:
    """As the rule `checkpoint_needs_another_transformers`, for a model that runs on CPU alone.

    Source: `transformers` of the runtime (vLLM's METADATA) and of the checkpoint.
    """
    if _on_gpu(subject):
        return None
    for checkpoint in subject.architecture.checkpoints:
        problem = transformers_problem(subject, checkpoint, Device.CPU)
        if problem is not None:
            return refusal(Reason.BROKEN_COMBINATION, problem)
    return None


def media_are_fetched_for_nobody(subject: Subject) -> Verdict | None:
    """Domains mean nothing where requests are text."""
    if not subject.spec.serving.media_domains or takes_media(subject):
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.serving.mediaDomains is given and {subject.entry.name} takes Text only here: remove"
        " it, or add Image or Audio to spec.serving.modalities.",
    )


def rust_frontend_is_not_in_the_image(subject: Subject) -> Verdict | None:
    """The binary comes with the CUDA wheel only (trap T27).

    Source: `packages` of the runtime.
    """
    if subject.spec.serving.frontend is not Frontend.RUST:
        return None
    for device in subject.architecture.devices:
        facts = runtime_for(subject, device)
        if RUST not in facts.packages:
            return refusal(
                Reason.BROKEN_COMBINATION,
                f"spec.serving.frontend Rust needs {RUST}, which the runtime image {facts.name}"
                f" (vLLM {facts.vllm}) does not have: use Python.",
            )
    return None


def rust_frontend_fetches_from_everywhere(subject: Subject) -> Verdict | None:
    """The Rust frontend has no list of hosts, so a request could reach any address (trap T27).

    Source: vLLM 0.33.0, `vllm-rs serve --help` (--allowed-media-domains is not implemented).
    """
    if subject.spec.serving.frontend is not Frontend.RUST or not takes_media(subject):
        return None
    wanted = ", ".join(m.value for m in subject.modalities if m is not Modality.TEXT)
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.serving.frontend Rust cannot limit which hosts {wanted} is fetched from: use Python,"
        " or set spec.serving.modalities to Text.",
    )


def adapters_are_for_other_models(subject: Subject) -> Verdict | None:
    """LoRA is known of few models, and where it is not known answers may leave it out (trap T12).

    Source: the runtime's capabilities named LoRA.
    """
    if not subject.spec.serving.adapters or _may_have_adapters(subject):
        return None
    return refusal(
        Reason.BROKEN_COMBINATION,
        f"spec.serving.adapters is given and the runtime image is not known to serve adapters of"
        f" {subject.entry.title}: remove it and serve the base model.",
    )


def adapter_is_out_of_reach(subject: Subject) -> Verdict | None:
    """Adapters lie beside the weights or in the image; nothing is downloaded yet."""
    weights = subject.spec.model.weights
    given = weights.uri if weights is not None else None
    claim = weights_mount(given).claim if given and is_local(given) else ""
    for adapter in subject.spec.serving.adapters:
        scheme = adapter.uri.partition("://")[0]
        if scheme == "file" or (scheme == "pvc" and weights_mount(adapter.uri).claim == claim):
            continue
        known = " or ".join([f"pvc://{claim}/PATH"] * bool(claim) + ["file:///PATH"])
        what = "is not supported" if scheme in LOCAL_SCHEMES else "is not downloaded"
        return refusal(
            Reason.NOT_YET_SUPPORTED,
            f"spec.serving.adapters {adapter.name}: {adapter.uri} {what} by this version: copy the"
            f" adapter beside the weights and write {known}.",
        )
    return None


def adapter_has_the_models_name(subject: Subject) -> Verdict | None:
    """A request selects the model or an adapter by its name."""
    taken = {subject.served_name}
    for adapter in subject.spec.serving.adapters:
        if adapter.name in taken:
            return refusal(
                Reason.INVALID_SPEC,
                f"spec.serving.adapters {adapter.name} has the name that requests select the base"
                " model by: give it another name.",
            )
    return None


def host_tier_has_no_gpu(subject: Subject) -> Verdict | None:
    """The tier copies from GPU memory; on CPU the KV cache is in host memory already.

    Source: vLLM 0.33.0, v1/kv_offload/cpu/spec.py:218-224.
    """
    cache = subject.spec.cache
    if cache is None or not asked_host_memory(subject) or _on_gpu(subject):
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.cache.hostMemory {cache.host_memory} is given and {subject.entry.name} runs on CPU"
        " only, where the KV cache is in host memory already: remove it.",
    )


def encoder_tier_has_nothing_to_keep(subject: Subject) -> Verdict | None:
    """Only images and audio are encoded, and the tier copies from GPU memory.

    Source: vLLM 0.33.0, distributed/ec_transfer/ec_connector/cpu/common.py:70-97.
    """
    cache = subject.spec.cache
    if cache is None or not encoder_bytes(subject):
        return None
    if takes_media(subject) and _on_gpu(subject):
        return None
    return refusal(
        Reason.INVALID_SPEC,
        f"spec.cache.encoderMemory {cache.encoder_memory} is given and {subject.entry.name} encodes"
        " neither images nor audio on a GPU here: remove it.",
    )


def _on_gpu(subject: Subject) -> bool:
    return Device.GPU in subject.architecture.devices


def _may_have_adapters(subject: Subject) -> bool:
    """Whether some checkpoint on some GPU is not known to fail with adapters."""
    model = model_on(subject)
    return _on_gpu(subject) and any(
        known.feature == Feature.LORA and known.status is not CapabilityStatus.BROKEN
        for known in (model.capabilities if model is not None else ())
    )
