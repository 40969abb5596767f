"""Why a serving pod does not serve, from what the kubelet and the runtime leave in its status."""

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import FETCH_CONTAINER
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Revision, Verdict
from kindling_operator.model.reports import Report
from kindling_operator.report.replicas import PodState, Replicas
from kindling_runtime.contract import ExitCode, read_last_words
from kindling_runtime.contract import Reason as Told

OUT_OF_MEMORY: Final = "OOMKilled"

_REASONS: Final[Mapping[Told, Reason]] = {
    Told.OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
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
    Told.NO_TOKEN: Reason.ENGINE_STALLED,
}
"""What the runtime tells and whose sentence says all; after anything else the engine has failed."""

_BY_CODE: Final[Mapping[int, Reason]] = {
    ExitCode.CONTRACT: Reason.CONTRACT_MISMATCH,
    ExitCode.PREFLIGHT: Reason.PREFLIGHT_FAILED,
}
"""For a runtime that could not leave a message."""


def failure(
    replicas: Replicas,
    revision: Revision | None,
    reports: Mapping[str, Report] = MappingProxyType({}),
) -> Verdict | None:
    """What keeps the first failing pod from serving, for Available; None if none fails.

    `reports` is what pods say of themselves, by uid. One that has failed has not recovered before
    it serves: while it starts again, its end is still what matters.
    """
    of = replicas.of
    found = chain(
        (_ended(pod, revision) for pod in of(PodState.FAILED)),
        (_not_started(pod) for pod in of(PodState.NOT_STARTED)),
        (image(pod, revision, ConditionType.AVAILABLE) for pod in of(PodState.IMAGE)),
        (troubled(pod, reports) or _silent(pod) for pod in of(PodState.STALLED)),
        (
            troubled(pod, reports) or (_ended(pod, revision) if pod.ended_exit_code else None)
            for pod in of(PodState.DOWNLOADING, PodState.LOADING)
        ),
        (troubled(pod, reports) for pod in replicas.ready),
    )
    return next((verdict for verdict in found if verdict is not None), None)


def troubled(pod: PodView, reports: Mapping[str, Report]) -> Verdict | None:
    """What a pod says that runs and does not move; None where it says nothing of the kind."""
    given, words = read_last_words(reports.get(pod.uid, Report()).trouble)
    if given is None or given not in _REASONS:
        return None
    reason, told = _REASONS[given], _sentence(words)
    fix = "; it is started again unless one comes" if given is Told.NO_TOKEN else ""
    return _available(reason, f"{pod.name}: {told}{fix}.")


def _not_started(pod: PodView) -> Verdict:
    """The container that the kubelet cannot make."""
    return _available(
        Reason.CONTAINER_NOT_STARTED,
        f"The engine container of {pod.name} cannot be started"
        f" ({_sentence(pod.waiting_message or pod.waiting_reason)}): create or correct what it"
        " names.",
    )


def _silent(pod: PodView) -> Verdict:
    """A pod that has generated tokens and is not ready any more, and nobody says why."""
    since = f" since {pod.unready_since:%H:%M} UTC" if pod.unready_since is not None else ""
    return _available(
        Reason.ENGINE_STALLED,
        f"{pod.name} generates no token{since}, and is started again unless one comes: see"
        f" `{logs_of(pod, previous=False)}`.",
    )


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
    if pod.ended_reason == OUT_OF_MEMORY and given is None:
        return _out_of_memory(pod, revision)
    reason = _BY_CODE.get(pod.ended_exit_code or 0) if given is None else _REASONS.get(given)
    if reason is not None:
        return _available(reason, _own_words(pod, told))
    return _available(
        Reason.ENGINE_FAILED,
        f"{_subject(pod)} ended with exit code {pod.ended_exit_code}"
        f" ({told or pod.ended_reason}), {_times(ends(pod))}: see `{logs_of(pod)}`.",
    )


def _out_of_memory(pod: PodView, revision: Revision | None) -> Verdict:
    """The kernel ended the container, which could say nothing any more."""
    if pod.downloads:
        told = f"the download in {pod.name} at its memory limit: report it with the log"
        return _available(Reason.OUT_OF_MEMORY, f"The kernel killed {told} of `{logs_of(pod)}`.")
    limit = f" of {_gib(revision.plan.pod.memory)}" if revision is not None else ""
    return _available(
        Reason.OUT_OF_MEMORY,
        f"The kernel killed the engine of {pod.name} at its memory limit{limit}{_count(pod)}: raise"
        " spec.runtime.resources.memory.",
    )


def ends(pod: PodView) -> int:
    """How often the container has ended; the kubelet counts only what it has started again."""
    return pod.restarts + (pod.ended_exit_code is not None and pod.started is None)


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
        return f"{pod.name}{_count(pod)}: {told}."
    return (
        f"The runtime of {pod.name} ended with exit code {pod.ended_exit_code} and said nothing:"
        f" see `{logs_of(pod)}`."
    )


def _subject(pod: PodView) -> str:
    return f"The download in {pod.name}" if pod.downloads else f"The engine of {pod.name}"


def logs_of(pod: PodView, *, previous: bool = True) -> str:
    """The command that shows what the container wrote; `previous`, before it ended."""
    container = f" -c {FETCH_CONTAINER}" if pod.downloads else ""
    flag = " --previous" if previous else ""
    return f"kubectl logs{flag} -n {pod.namespace} {pod.name}{container}"


def _times(count: int) -> str:
    return "once" if count <= 1 else f"{count} times in all"


def _count(pod: PodView) -> str:
    """How often it has ended, for whatever reasons; nothing for the first time."""
    return f" (ended {_times(ends(pod))})" if ends(pod) > 1 else ""


def _sentence(text: str) -> str:
    """The first line of what another program wrote, without its full stop."""
    return " ".join(text.split()).rstrip(".")


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
