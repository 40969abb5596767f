"""The replicas of one model, each in one class; conditions and counts read only the classes.

A replica is a pod, or a group of pods: of a group, the pod that is furthest from serving tells.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from kindling_operator.model.names import Key
from kindling_operator.model.objects import PodView
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.causes import cause_of, is_echo

# Reasons with which the kubelet says that an image cannot be had (pkg/kubelet/images/types.go).
_IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
# Reasons of a container that the kubelet could not make (pkg/kubelet/kuberuntime, events/event.go).
_NOT_STARTED: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)


class PodState(StrEnum):
    """Where a serving pod is in its life."""

    LEAVING = "Leaving"
    """Being deleted; it finishes its streams."""
    OVER = "Over"
    """Ended for good, such as an evicted pod; its ReplicaSet has made another."""
    SERVING = "Serving"
    """Ready, and the Service sends traffic to it."""
    READY = "Ready"
    """Ready, not yet behind the Service."""
    UNSCHEDULABLE = "Unschedulable"
    """The scheduler has said why it has no node."""
    PENDING = "Pending"
    """The scheduler has not said anything yet."""
    IMAGE = "Image"
    """The node cannot get the image."""
    NOT_STARTED = "NotStarted"
    """The container cannot be made, such as for a missing Secret."""
    FAILED = "Failed"
    """The engine container has ended and does not run; the kubelet starts it again."""
    STALLED = "Stalled"
    """The engine runs and has generated tokens, and does not any more."""
    DOWNLOADING = "Downloading"
    """The weights are on their way."""
    LOADING = "Loading"
    """The engine runs and has not generated a token yet."""
    CREATING = "Creating"
    """Anything before that: volumes, image, sandbox."""


def _was_ready(pod: PodView) -> bool:
    """Whether the engine that runs was ready: readiness ended after its start."""
    if not pod.up or pod.started is None or pod.unready_since is None:
        return False
    return pod.unready_since > pod.started


# The first check that holds decides.
_CHECKS: Final[tuple[tuple[PodState, Callable[[PodView], bool]], ...]] = (
    (PodState.LEAVING, lambda pod: pod.terminating),
    (PodState.OVER, lambda pod: pod.ended),
    (PodState.READY, lambda pod: pod.ready),
    (PodState.UNSCHEDULABLE, lambda pod: bool(pod.unschedulable)),
    (PodState.PENDING, lambda pod: not pod.node),
    (PodState.IMAGE, lambda pod: pod.waiting_reason in _IMAGE),
    (PodState.NOT_STARTED, lambda pod: pod.waiting_reason in _NOT_STARTED),
    (PodState.FAILED, lambda pod: pod.ended_exit_code is not None and pod.started is None),
    (PodState.STALLED, _was_ready),
    (PodState.DOWNLOADING, lambda pod: pod.fetching),
    (PodState.LOADING, lambda pod: pod.phase == "Running"),
)


# Which of a group's pods tells about it: the first state that one of them is in.
_TELLS: Final = (
    PodState.UNSCHEDULABLE,
    PodState.PENDING,
    PodState.FAILED,
    PodState.NOT_STARTED,
    PodState.IMAGE,
    PodState.STALLED,
    PodState.CREATING,
    PodState.DOWNLOADING,
    PodState.LOADING,
)


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of one model by state, each as one of its pods; `members` are all pods of each
    group, by its name."""

    by_state: dict[PodState, tuple[PodView, ...]]
    members: Mapping[str, tuple[PodView, ...]] = field(default_factory=dict)

    def of(self, *states: PodState) -> tuple[PodView, ...]:
        """The pods in any of these states, by name."""
        found = (pod for state in states for pod in self.by_state.get(state, ()))
        return tuple(sorted(found, key=lambda pod: pod.name))

    @property
    def living(self) -> tuple[PodView, ...]:
        """Pods that count as replicas: neither leaving nor over."""
        return self.of(*(set(PodState) - {PodState.LEAVING, PodState.OVER}))

    @property
    def ready(self) -> tuple[PodView, ...]:
        """Pods that generate tokens."""
        return self.of(PodState.SERVING, PodState.READY)


def classify(snapshot: Snapshot, key: Key) -> Replicas:
    """Every replica of a model in exactly one class."""
    behind = frozenset(snapshot.endpoints.get(key, ()))
    members: dict[str, tuple[PodView, ...]] = {}
    found: dict[PodState, list[PodView]] = {}
    for pod in snapshot.pods_of(key):
        if pod.group:
            members[pod.group] = (*members.get(pod.group, ()), pod)
        else:
            found.setdefault(state_of(pod, behind=pod.name in behind), []).append(pod)
    for pods in members.values():
        state, pod = _of_group(pods, behind)
        found.setdefault(state, []).append(pod)
    return Replicas({state: tuple(pods) for state, pods in found.items()}, members)


def _of_group(pods: tuple[PodView, ...], behind: frozenset[str]) -> tuple[PodState, PodView]:
    """The state of a group and the pod that tells: the leader once all are ready, or it leaves."""
    states = {pod.name: state_of(pod, behind=pod.name in behind) for pod in pods}
    leader = min(pods, key=lambda pod: pod.rank)
    if states[leader.name] is PodState.LEAVING:
        return PodState.LEAVING, leader
    for state in _TELLS:
        telling = [pod for pod in pods if states[pod.name] is state]
        if telling:
            found = cause_of(telling)
            if is_echo(found):
                # The engine that was the cause may have been started again before its echoes.
                found = cause_of([pod for pod in pods if not pod.terminating])
            if state is PodState.LOADING:
                found = replace(found, started=_last_started(pods))
            return state, found
    return states[leader.name], leader


def _last_started(pods: tuple[PodView, ...]) -> datetime | None:
    """When the last of them began to run: the time to start counts from when all are there."""
    return max((pod.started for pod in pods if pod.started is not None), default=None)


def state_of(pod: PodView, *, behind: bool) -> PodState:
    """The class of one pod; `behind` tells whether the Service sends traffic to it."""
    state = next((state for state, holds in _CHECKS if holds(pod)), PodState.CREATING)
    return PodState.SERVING if state is PodState.READY and behind else state
