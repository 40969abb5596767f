"""Progressing: which change is under way and what it waits for. Pure; no text ticks."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import revision_object_name
from kindling_operator.model.objects import ChildView, PodView
from kindling_operator.model.plan import Decision, Revision, RolloutState, Verdict
from kindling_operator.model.reports import Report
from kindling_operator.plan.causes import BUDGET
from kindling_operator.report.failures import ends, last_end
from kindling_operator.report.replicas import PodState, Replicas

_STARTS = frozenset({PodState.DOWNLOADING, PodState.LOADING})
"""What a pod does that tells how far it is."""
_AGAIN = _STARTS | {PodState.FAILED}
"""In which a pod may be that has ended before."""
_LONG = timedelta(minutes=10)
"""After so long a life the kubelet begins its waits anew (MaxContainerBackOff, twice)."""


def behind_endpoint(replicas: Replicas) -> int:
    """Replicas that the Service sends traffic to."""
    return len(replicas.of(PodState.SERVING))


def progressing(
    decision: Decision,
    replicas: Replicas,
    workloads: Sequence[ChildView],
    *,
    unanswered: str = "",
    reports: Mapping[str, Report] = MappingProxyType({}),
) -> Verdict:
    """The condition of a model that has targets.

    `unanswered` is why no answer of a new replica is known to have come through the Service;
    `reports` is what pods say of themselves, by uid.
    """
    current = decision.current
    if current is None:
        return _verdict(Reason.COMPLETE, "Nothing is wanted, and nothing is left.")
    name = revision_object_name(decision.key.name, current.hash)
    mine = [pod for pod in replicas.living if pod.revision == current.hash]
    failed = _failed(decision, name) or _budget_spent(decision, mine, replicas, name=name)
    if failed is not None:
        return failed
    ready = [pod for pod in replicas.ready if pod.revision == current.hash]
    wanted = decision.targets[0].replicas
    if decision.ask and unanswered:
        return _verdict(
            Reason.ROLLING_OUT,
            f"{len(ready)} of {decision.desired_replicas} replicas run revision {name} and the"
            f" older ones stay, because {unanswered}.",
        )
    if len(ready) >= max(wanted, decision.desired_replicas):
        return _settling(decision, replicas, workloads, name=name, wanted=wanted)
    if len(decision.targets) > 1:
        waits = _what_it_waits_for(mine, replicas, current, wanted=wanted, reports=reports)
        return _verdict(
            Reason.ROLLING_OUT,
            f"{len(ready)} of {decision.desired_replicas} replicas run revision {name}; {waits}.",
        )
    waits = _what_it_waits_for(mine, replicas, current, wanted=wanted, reports=reports)
    return _starting(mine, replicas, name=name, wanted=wanted, ready=len(ready), waits=waits)


def _failed(decision: Decision, name: str) -> Verdict | None:
    """What became of a revision that did not serve; `name` is that of the current one."""
    if decision.state is RolloutState.ROLLED_BACK:
        bad = next((each for each in decision.kept if each.failed), None)
        why = f" ({bad.why})" if bad is not None and bad.why else ""
        return _verdict(
            Reason.ROLLED_BACK,
            f"The newest revision failed{why} and {name} serves again: correct the spec to try once"
            " more.",
        )
    if decision.state is RolloutState.HELD:
        return _verdict(
            Reason.HELD,
            f"Revision {name} failed and is held as spec.rollout.onFailure asks: correct the"
            " spec, or set onFailure to Rollback.",
        )
    return None


def _budget_spent(
    decision: Decision, mine: Sequence[PodView], replicas: Replicas, *, name: str
) -> Verdict | None:
    """A replica, or a group, that fails again and again while nothing else serves."""
    if replicas.ready or len(decision.targets) > 1:
        return None
    for pod in replicas.of(*_AGAIN):
        lived = pod.ended_after
        if pod in mine and ends(pod) >= BUDGET and (lived is None or lived < _LONG):
            return _verdict(
                Reason.FAILED,
                f"Revision {name} has failed, as pod {_with_ends(pod)} does not stay up: correct"
                " what that names, or the spec; it is tried on with pauses of 5 minutes.",
            )
    return None


def _starting(
    mine: Sequence[PodView],
    replicas: Replicas,
    *,
    name: str,
    wanted: int,
    ready: int,
    waits: str,
) -> Verdict:
    if any(pod in mine for pod in replicas.of(PodState.DOWNLOADING)):
        return _verdict(
            Reason.DOWNLOADING, f"{ready} of {wanted} replicas of {name} generate tokens; {waits}."
        )
    loading = [pod for pod in replicas.of(PodState.LOADING, PodState.STALLED) if pod in mine]
    if loading:
        return _verdict(
            Reason.LOADING,
            f"{ready} of {wanted} replicas of {name} generate tokens; {waits}.",
        )
    return _verdict(
        Reason.CREATING,
        f"{len(mine)} of {wanted} replicas of {name} exist; {waits}.",
    )


def _settling(
    decision: Decision,
    replicas: Replicas,
    workloads: Sequence[ChildView],
    *,
    name: str,
    wanted: int,
) -> Verdict:
    """Everything wanted is there; is anything left that is not wanted any more."""
    leaving = replicas.of(PodState.LEAVING)
    if leaving:
        return _verdict(
            Reason.DRAINING,
            f"{_count(len(leaving), 'replica')} to leave after the last stream: {_names(leaving)}.",
        )
    wanted_hashes = {target.revision.hash for target in decision.targets if target.replicas}
    current = decision.current.hash if decision.current is not None else ""
    old = [child for child in workloads if child.revision != current]
    if len(wanted_hashes) > 1 or any(child.status.get("replicas", 0) for child in old):
        return _verdict(
            Reason.ROLLING_OUT,
            f"{wanted} of {wanted} replicas run revision {name}; the older ones leave once it"
            " serves through the endpoint.",
        )
    return _verdict(Reason.COMPLETE, f"All {wanted} replicas run revision {name}{_past(replicas)}.")


def _past(replicas: Replicas) -> str:
    """The replica that has failed before it serves now, such as while no operator looked."""
    for pod in replicas.ready:
        if pod.restarts and pod.ended_exit_code:
            return f", pod {_with_ends(pod)}"
    return ""


def _what_it_waits_for(
    mine: Sequence[PodView],
    replicas: Replicas,
    current: Revision,
    *,
    wanted: int,
    reports: Mapping[str, Report],
) -> str:
    """The state of the pod that is furthest from serving, in words that change with its state."""
    for state, words in (
        (PodState.FAILED, "pod {} is started again"),
        (PodState.NOT_STARTED, "the container of pod {} cannot be started"),
        (PodState.IMAGE, "the node of pod {} cannot pull the image"),
        (PodState.UNSCHEDULABLE, "no node has room for pod {}"),
        (PodState.PENDING, "pod {} waits for the scheduler"),
        (PodState.STALLED, "pod {} runs and generates no token any more"),
        (PodState.CREATING, "the node gets pod {} ready to start"),
        (PodState.DOWNLOADING, "pod {} downloads the weights"),
        (PodState.LOADING, "pod {} starts the engine and has until {} to generate a token"),
    ):
        pods = [pod for pod in replicas.of(state) if pod in mine]
        if pods:
            told = reports.get(pods[0].uid, Report()).progress
            waits = words.format(_called(pods[0], state), _deadline(pods[0], current))
            return f"{waits} ({told})" if told and state in _STARTS else waits
    if len(mine) < wanted:
        return "their pods are about to be created"
    return "the next waits for room, see the condition Scheduled"


def _called(pod: PodView, state: PodState) -> str:
    """The pod's name; one that starts again tells how often, and how it ended the last time."""
    again = state in _AGAIN and pod.ended_exit_code is not None
    return _with_ends(pod) if again else pod.name


def _with_ends(pod: PodView) -> str:
    return f"{pod.name} (restarts: {pod.restarts}, {last_end(pod)})"


def _deadline(pod: PodView, current: Revision) -> str:
    # The runtime counts from its own start, and a container that was started again counts anew.
    end: datetime = (pod.started or pod.created) + timedelta(seconds=current.plan.startup_seconds)
    return end.strftime("%H:%M UTC")


def _names(pods: Sequence[PodView]) -> str:
    shown = ", ".join(pod.name for pod in pods[:3])
    return shown if len(pods) <= 3 else f"{shown} and {len(pods) - 3} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _verdict(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionType.PROGRESSING, reason, message)
