"""Why a serving pod does not serve, from what the kubelet and the runtime leave in its status."""

from typing import Final

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Revision, Verdict
from kindling_operator.report.replicas import PodState, Replicas

OUT_OF_MEMORY: Final = "OOMKilled"

# Exit codes of kindling-runtime (docs/reference: 64 contract, 78 preflight, 70 engine).
_CONTRACT: Final = 64
_PREFLIGHT: Final = 78


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
    told = _sentence(pod.ended_message)
    if pod.ended_reason == OUT_OF_MEMORY:
        limit = f" of {_gib(revision.plan.pod.memory)}" if revision is not None else ""
        return _available(
            Reason.OUT_OF_MEMORY,
            f"The kernel killed the engine of {pod.name} at its memory limit{limit}: raise"
            " spec.runtime.resources.memory.",
        )
    if pod.ended_exit_code == _CONTRACT:
        return _available(Reason.CONTRACT_MISMATCH, _own_words(pod, told))
    if pod.ended_exit_code == _PREFLIGHT:
        missing_weights = "weights" in told
        reason = Reason.WEIGHTS_INCOMPLETE if missing_weights else Reason.PREFLIGHT_FAILED
        return _available(reason, _own_words(pod, told))
    return _available(
        Reason.ENGINE_FAILED,
        f"The engine of {pod.name} ended with exit code {pod.ended_exit_code}"
        f" ({told or pod.ended_reason}), {_times(pod.restarts)}: see `kubectl logs --previous -n"
        f" {pod.namespace} {pod.name}`.",
    )


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
