"""Which of a group's pods is the cause of what befell it, and whether it fails again and again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from kindling_operator.model.conditions import fit_message
from kindling_operator.model.objects import PodView
from kindling_runtime.contract import KILLED, read_last_words
from kindling_runtime.contract import Reason as Told

BUDGET: Final = 5
"""So often in a row the engine of a pod may end without staying up."""
BUDGET_WAIT: Final = timedelta(seconds=80)
"""What the kubelet waits by then before it starts the container again: not at all after the first
end, then 10 s, doubled each time; anew after a life of ten minutes (pkg/kubelet/kubelet.go)."""
LONGEST: Final = 500
"""Characters of what is remembered of replicas that are gone."""
_TOGETHER: Final = timedelta(minutes=5)
"""Engines of a group that end for one reason do so within this time."""
_BACK_OFF: Final = re.compile(r"back-off (?:(\d+)m)?(\d+)s restarting failed container")
"""Of Kubernetes 1.37, pkg/kubelet/kuberuntime/kuberuntime_manager.go."""


def cause_of(pods: Sequence[PodView]) -> PodView:
    """The pod that tells most: of engines that end together, the first cause says more than its
    echoes, and an end of long ago nothing."""
    last = max((pod.ended_at for pod in pods if pod.ended_at is not None), default=None)

    def worth(pod: PodView) -> tuple[bool, bool, bool, float, int]:
        old = last is not None and (pod.ended_at is None or pod.ended_at < last - _TOGETHER)
        at = pod.ended_at.timestamp() if pod.ended_at is not None else 0.0
        return old or pod.ended_exit_code is None, is_echo(pod), not _killed(pod), at, pod.rank

    return min(pods, key=worth)


def is_echo(pod: PodView) -> bool:
    """Whether the engine ended only because another of its group did."""
    return read_last_words(pod.ended_message)[0] is Told.GROUP_BROKEN


def _killed(pod: PodView) -> bool:
    """Whether its engine died of a signal, which is nobody's echo: who was connected to it ends
    with words about the connection, and often in the same second, or the one before."""
    return KILLED in read_last_words(pod.ended_message)[1]


def why_ended(pod: PodView) -> str:
    """How its container ended the last time, as a clause without the pod's name."""
    words = read_last_words(pod.ended_message)[1] or pod.ended_reason or "without a word"
    return clause(f"exit code {pod.ended_exit_code}: {words}")


def clause(text: str) -> str:
    """A foreign text as a part of a sentence that is remembered."""
    return fit_message(text).rstrip(".")[:LONGEST]


def is_spent(pods: Iterable[PodView]) -> bool:
    """Whether a group fails again and again: the kubelet's own wait tells how often in a row."""
    found = tuple(pods)
    return not any(pod.ready for pod in found) and any(_wait(pod) >= BUDGET_WAIT for pod in found)


def _wait(pod: PodView) -> timedelta:
    """How long the kubelet waits before it starts the container again."""
    found = _BACK_OFF.search(pod.waiting_message)
    if found is None:
        return timedelta()
    return timedelta(minutes=int(found[1] or 0), seconds=int(found[2]))
