"""Fetching media of requests: nothing, unless the user names the hosts.

In vLLM an empty list of domains allows all of them, private addresses and metadata services
included, and a redirect leads around any list (vLLM 0.33.0, multimodal/media/connector.py). The
serving pods' NetworkPolicy holds even if the engine does not.
"""

from __future__ import annotations

from typing import Final

from kindling_operator.model.api_serving import Frontend
from kindling_operator.model.architecture import Modality
from kindling_operator.model.quantities import quantity_bytes
from kindling_operator.plan.argument import Argument
from kindling_operator.plan.subject import Subject

NO_MEDIA_DOMAIN: Final = "fetching-media-is-off.invalid"
"""Nothing resolves below .invalid (RFC 2606)."""

MEDIA_ENVIRONMENT: Final = {
    # A redirect would lead around --allowed-media-domains.
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
}

_MOST_PER_REQUEST: Final = {Modality.IMAGE: 8, Modality.AUDIO: 2}
"""Without a limit one request may hold any number of them (vLLM 0.33.0,
models/inkling/common/mm_preprocess.py:106-113)."""


def takes_media(subject: Subject) -> bool:
    """Whether requests may contain more than text."""
    return any(modality is not Modality.TEXT for modality in subject.modalities)


def allowed_domains(subject: Subject) -> tuple[str, ...]:
    """The hosts that media may be fetched from, sorted; none if nothing is fetched."""
    return tuple(sorted(subject.spec.serving.media_domains))


def media_arguments(subject: Subject) -> tuple[Argument, ...]:
    """Which hosts the engine may fetch from.

    The Rust frontend ends at this option, and is refused where requests may name media (T27).
    """
    if subject.spec.serving.frontend is Frontend.RUST:
        return ()
    option, domains = "--allowed-media-domains", allowed_domains(subject)
    if not domains:
        why = "nothing is fetched, and without a list every host would be allowed"
        return listed(option, (NO_MEDIA_DOMAIN,), why)
    return listed(option, domains, "spec.serving.mediaDomains")


def modality_arguments(subject: Subject) -> tuple[Argument, ...]:
    """How much media one request may hold; none of what the model could take and nobody wants."""
    could = [m for m in subject.architecture.modalities if m is not Modality.TEXT]
    if not could:
        return ()
    if not takes_media(subject):
        return (Argument("--language-model-only", "spec.serving.modalities is Text alone"),)
    limits = ",".join(
        f'"{modality.value.lower()}":{_most(subject, modality)}' for modality in sorted(could)
    )
    why = "without a limit one request may hold any number"
    return (Argument(f"--limit-mm-per-prompt={{{limits}}}", why),)


def encoder_bytes(subject: Subject) -> int:
    """Host memory for encoded images and audio that the user gives, in bytes."""
    asked = subject.spec.cache.encoder_memory if subject.spec.cache is not None else None
    return quantity_bytes(asked) if asked is not None else 0


def listed(option: str, values: tuple[str, ...], why: str) -> tuple[Argument, ...]:
    """An option with one or more values: one item where it can be."""
    if len(values) == 1:
        return (Argument(f"{option}={values[0]}", why),)
    return (Argument(option, why), *(Argument(value) for value in values))


def _most(subject: Subject, modality: Modality) -> int:
    return _MOST_PER_REQUEST[modality] if modality in subject.modalities else 0
