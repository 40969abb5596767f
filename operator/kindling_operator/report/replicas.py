"""The serving pods of one model, each in one class; conditions and counts read only the classes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kindling_operator.model.names import Key
from kindling_operator.model.objects import PodView
from kindling_operator.model.snapshot import Snapshot

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
_OVER: Final = frozenset({"Failed", "Succeeded"})


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
    LOADING = "Loading"
    """The engine runs and has not generated a token yet."""
    CREATING = "Creating"
    """Anything before that: volumes, image, sandbox."""


# The first check that holds decides.
_CHECKS: Final[tuple[tuple[PodState, Callable[[PodView], bool]], ...]] = (
    (PodState.LEAVING, lambda pod: pod.terminating),
    (PodState.OVER, lambda pod: pod.phase in _OVER),
    (PodState.READY, lambda pod: pod.ready),
    (PodState.UNSCHEDULABLE, lambda pod: bool(pod.unschedulable)),
    (PodState.PENDING, lambda pod: not pod.node),
    (PodState.IMAGE, lambda pod: pod.waiting_reason in _IMAGE),
    (PodState.NOT_STARTED, lambda pod: pod.waiting_reason in _NOT_STARTED),
    (PodState.FAILED, lambda pod: pod.ended_exit_code is not None and pod.started is None),
    (PodState.LOADING, lambda pod: pod.phase == "Running"),
)


@dataclass(frozen=True, slots=True)
class Replicas:
    """The pods of one model by state; `serving` stand behind the endpoint."""

    by_state: dict[PodState, tuple[PodView, ...]]

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
    """Every serving pod of a model in exactly one class."""
    behind = frozenset(snapshot.endpoints.get(key, ()))
    return Replicas(_grouped(snapshot.pods_of(key), behind))


def _grouped(
    pods: Iterable[PodView], behind: frozenset[str]
) -> dict[PodState, tuple[PodView, ...]]:
    groups: dict[PodState, list[PodView]] = {}
    for pod in pods:
        groups.setdefault(state_of(pod, behind=pod.name in behind), []).append(pod)
    return {state: tuple(found) for state, found in groups.items()}


def state_of(pod: PodView, *, behind: bool) -> PodState:
    """The class of one pod; `behind` tells whether the Service sends traffic to it."""
    state = next((state for state, holds in _CHECKS if holds(pod)), PodState.CREATING)
    return PodState.SERVING if state is PodState.READY and behind else state
