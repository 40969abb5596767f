"""Why a serving pod does not serve, from what the kubelet and the runtime leave in its status."""

from collections.abc import Mapping
from typing import Final

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Revision, Verdict
from kindling_operator.report.replicas import PodState, Replicas
from kindling_runtime.contract import ExitCode, read_last_words
from kindling_runtime.contract import Reason as Told

OUT_OF_MEMORY: Final = "OOMKilled"

_REASONS: Final[Mapping[Told, Reason]] = {
    Told.CONTRACT_REFUSED: Reason.CONTRACT_MISMATCH,
    Told.PREFLIGHT_FAILED: Reason.PREFLIGHT_FAILED,
    Told.WEIGHTS_INCOMPLETE: Reason.WEIGHTS_INCOMPLETE,
    Told.STORE_REFUSED: Reason.WEIGHTS_INCOMPLETE,
    Told.STORE_STALLED: Reason.WEIGHTS_INCOMPLETE,
    Told.CACHE_FULL: Reason.WEIGHTS_INCOMPLETE,
    Told.CHECKSUM_MISMATCH: Reason.WEIGHTS_INCOMPLETE,
    Told.START_DEADLINE_EXCEEDED: Reason.START_DEADLINE_EXCEEDED,
    Told.STUCK: Reason.ENGINE_STALLED,
    Told.WEDGED: Reason.ENGINE_STALLED,
}
"""What the runtime tells and whose sentence says all; after anything else the engine has failed."""

_BY_CODE: Final[Mapping[int, Reason]] = {
    ExitCode.CONTRACT: Reason.CONTRACT_MISMATCH,
    ExitCode.PREFLIGHT: Reason.PREFLIGHT_FAILED,
}
"""For a runtime that could not leave a message."""


def failure(replicas: Replicas, revision: Revision | None) -> Verdict | None:
    """What keeps the first failing pod from serving, for Available; None if none fails."""
    for pod in replicas.of(PodState.FAILED):
        return _ended(pod, revision)
    for pod in replicas.of(PodState.NOT_STARTED):
        return _available(
            Reason.CONTAINER_NOT_STARTED,
            f"The engine container of {pod.name} cannot be started"
            f" ({_sentence(pod.waiting_message or pod.waiting_reason)}): create or correct what"
            " it names.",
        )
    for pod in replicas.of(PodState.IMAGE):
        return image(pod, revision, ConditionType.AVAILABLE)
    return None


def image(pod: PodView, revision: Revision | None, condition: ConditionType) -> Verdict:
    """The image that the node cannot pull."""
    wanted = revision.plan.image if revision is not None else pod.image
    return Verdict(
        condition,
        Reason.IMAGE_NOT_PULLABLE,
        f"The node cannot pull {wanted} ({_sentence(pod.waiting_message or pod.waiting_reason)}):"
        " correct spec.runtime.image or imagePullSecrets.",
    )


def _ended(pod: PodView, revision: Revision | None) -> Verdict:
    given, words = read_last_words(pod.ended_message)
    told = _sentence(words)
    if pod.ended_reason == OUT_OF_MEMORY:
        limit = f" of {_gib(revision.plan.pod.memory)}" if revision is not None else ""
        return _available(
            Reason.OUT_OF_MEMORY,
            f"The kernel killed the engine of {pod.name} at its memory limit{limit}: raise"
            " spec.runtime.resources.memory.",
        )
    reason = _BY_CODE.get(pod.ended_exit_code or 0) if given is None else _REASONS.get(given)
    if reason is not None:
        return _available(reason, _own_words(pod, told))
    return _available(
        Reason.ENGINE_FAILED,
        f"The engine of {pod.name} ended with exit code {pod.ended_exit_code}"
        f" ({told or pod.ended_reason}), {_times(pod.restarts)}: see `kubectl logs --previous -n"
        f" {pod.namespace} {pod.name}`.",
    )


def last_end(pod: PodView) -> str:
    """How the engine container ended the last time, in the runtime's words where it left some."""
    _, words = read_last_words(pod.ended_message)
    told = _sentence(words) or pod.ended_reason or "without a word"
    return f"the last ended with exit code {pod.ended_exit_code}: {told}"


def _available(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.AVAILABLE, reason, message)


def _own_words(pod: PodView, told: str) -> str:
    """The runtime's last sentence, or that it left none."""
    if told:
        return f"{pod.name}: {told}."
    return (
        f"The runtime of {pod.name} ended with exit code {pod.ended_exit_code} and said nothing:"
        f" see `kubectl logs --previous -n {pod.namespace} {pod.name}`."
    )


def _times(restarts: int) -> str:
    return "once" if restarts <= 1 else f"{restarts} times"


def _sentence(text: str) -> str:
    """The first line of what another program wrote, without its full stop."""
    return " ".join(text.split()).rstrip(".")


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
