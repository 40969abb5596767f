"""Every condition of one model, from the snapshot, the decision and what came of applying it. Pure.

A verdict of the planner stands; where it gave none, the condition follows from the pods.
"""

from dataclasses import dataclass

from kindling_operator.model.conditions import ConditionType as C
from kindling_operator.model.conditions import Reason
from kindling_operator.model.names import DEPLOYMENT, LEADER_WORKER_SET, WORKLOAD_KINDS, Key
from kindling_operator.model.names import revision_object_name as object_name
from kindling_operator.model.objects import ChildView
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import Decision, RolloutState, Verdict
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.report import failures, measured, progress, scheduling
from kindling_operator.report.replicas import PodState, Replicas, classify

# A failure that waits for a person, even while an older revision serves.
_PENDING_FAILURES = frozenset(
    {Reason.ROLLED_BACK, Reason.HELD, Reason.DEADLINE_EXCEEDED, Reason.APPLY_REFUSED}
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions of one model are computed from."""

    snapshot: Snapshot
    decision: Decision
    outcome: Outcome
    replicas: Replicas
    workloads: tuple[ChildView, ...]

    @property
    def key(self) -> Key:
        return self.decision.key

    @property
    def running(self) -> bool:
        """Whether something of this model exists, so that the other conditions have a subject.

        A name that was taken before the first workload was made leaves nothing.
        """
        verdict = self.outcome.verdict
        taken = verdict is not None and verdict.condition is C.ACCEPTED
        return bool(self.decision.targets) and (bool(self.workloads) or not taken)


def facts(snapshot: Snapshot, decision: Decision, outcome: Outcome) -> Facts:
    """The facts of one model."""
    uid = snapshot.models[decision.key].metadata.uid
    children = snapshot.children.get(decision.key, ())
    workloads = tuple(
        child for child in children if child.ref.kind in WORKLOAD_KINDS and child.owner_uid == uid
    )
    return Facts(snapshot, decision, outcome, classify(snapshot, decision.key), workloads)


def verdicts(known: Facts, endpoint: str) -> tuple[Verdict, ...]:
    """One verdict per condition, in the order of ConditionType."""
    found = {
        C.ACCEPTED: _accepted(known),
        C.SCHEDULED: _given(known, C.SCHEDULED) or _scheduled(known),
        C.IDENTITY_READY: _given(known, C.IDENTITY_READY) or _store(known, C.IDENTITY_READY),
        C.CACHE_READY: _given(known, C.CACHE_READY) or _store(known, C.CACHE_READY),
        C.PROGRESSING: _given(known, C.PROGRESSING) or _progressing(known),
        C.AVAILABLE: _given(known, C.AVAILABLE) or _available(known, endpoint),
        C.SCALING_ACTIVE: _given(known, C.SCALING_ACTIVE) or _scaling(known),
        C.PLAN_CURRENT: _plan_current(known),
    }
    return (*found.values(), _ready(found))


def _given(known: Facts, condition: C) -> Verdict | None:
    """What applying or planning has said about a condition."""
    outcome = known.outcome.verdict
    if outcome is not None and outcome.condition is condition:
        return outcome
    return known.decision.verdict(condition)


def _accepted(known: Facts) -> Verdict:
    given = _given(known, C.ACCEPTED)
    if given is not None:
        return given
    current = known.decision.current
    summary = current.plan.summary if current is not None else "The spec can be planned."
    return Verdict(C.ACCEPTED, Reason.SPEC_ACCEPTED, summary)


def _planned(known: Facts) -> bool:
    """Whether there is a plan to speak of, also while its pods wait for something to exist."""
    return known.running or _accepted(known).holds


def _not_accepted(condition: C) -> Verdict:
    return Verdict(
        condition,
        Reason.NOT_ACCEPTED,
        "Nothing is created before the spec is accepted: see the condition Accepted.",
    )


def _scheduled(known: Facts) -> Verdict:
    if not known.running:
        return _not_accepted(C.SCHEDULED)
    return scheduling.scheduled(
        known.replicas,
        known.workloads,
        wanted=known.decision.desired_replicas,
        revision=known.decision.current,
        unmade=_unmade(known),
        short=known.decision.short,
    )


def _unmade(known: Facts) -> str:
    """Why nothing runs replicas of the current revision, "" if something does.

    It is made after all that it needs, of which the cluster may refuse a part.
    """
    current = known.decision.current
    if current is None:
        return ""
    name = object_name(known.key.name, current.hash)
    written = (ref for ref in known.outcome.applied if ref.kind in WORKLOAD_KINDS)
    if any(child.revision == current.hash for child in known.workloads) or any(
        ref.name.startswith(name) for ref in written
    ):
        return ""
    kind = DEPLOYMENT if current.plan.group is None else LEADER_WORKER_SET
    refused = _given(known, C.PROGRESSING)
    if refused is not None and refused.reason is Reason.APPLY_REFUSED:
        return (
            f"{kind.kind} {name} is made after what the cluster refuses, see the condition"
            " Progressing"
        )
    return f"{kind.kind} {name} is about to be made"


def _store(known: Facts, condition: C) -> Verdict:
    if not _planned(known):
        return _not_accepted(condition)
    return Verdict(condition, Reason.NOT_CONFIGURED, "No object store is configured.")


def _progressing(known: Facts) -> Verdict:
    if not known.running:
        return _not_accepted(C.PROGRESSING)
    answers = known.snapshot.answers.get(known.key)
    return progress.progressing(
        known.decision,
        known.replicas,
        known.workloads,
        unanswered=answers.problem if answers is not None else "",
        reports=known.snapshot.reports,
    )


def _available(known: Facts, endpoint: str) -> Verdict:
    if not known.running:
        return _not_accepted(C.AVAILABLE)
    wanted, reports = known.decision.desired_replicas, known.snapshot.reports
    behind = known.replicas.of(PodState.SERVING)
    serving = sum(1 for pod in behind if failures.troubled(pod, reports) is None)
    if serving:
        return Verdict(
            C.AVAILABLE,
            Reason.SERVING,
            f"{serving} of {max(wanted, serving)} replicas generate tokens at {endpoint}.",
        )
    if wanted == 0:
        return Verdict(
            C.AVAILABLE,
            Reason.SCALED_TO_ZERO,
            "There is no replica because spec.replicas is 0: raise it to serve.",
        )
    failing = failures.failure(known.replicas, known.decision.current, reports)
    return failing or Verdict(
        C.AVAILABLE, Reason.NO_READY_REPLICA, f"0 of {wanted} replicas have generated a token yet."
    )


def _scaling(known: Facts) -> Verdict:
    model = known.snapshot.models[known.key]
    if not isinstance(model, ParsedModel) or not _planned(known):
        return _not_accepted(C.SCALING_ACTIVE)
    if model.spec.scaling is not None:
        return Verdict(
            C.SCALING_ACTIVE,
            Reason.DISABLED,
            "spec.scaling is set and this version does not scale, so spec.replicas is kept: see"
            " the condition Accepted.",
        )
    return Verdict(
        C.SCALING_ACTIVE, Reason.DISABLED, "spec.scaling is not set, so spec.replicas is kept."
    )


def _plan_current(known: Facts) -> Verdict:
    decision = known.decision
    if decision.better is not None:
        return decision.better
    if not _planned(known):
        return _not_accepted(C.PLAN_CURRENT)
    if decision.current is None or not progress.behind_endpoint(known.replicas):
        return Verdict(
            C.PLAN_CURRENT, Reason.NOT_MEASURED, "No replica has reported its numbers yet."
        )
    mismatch = measured.mismatch(known.snapshot, decision.current, known.replicas)
    if mismatch is not None:
        return mismatch
    name = object_name(decision.key.name, decision.current.hash)
    reason, message = _plan_in_use(decision, name)
    return Verdict(C.PLAN_CURRENT, reason, message)


def _plan_in_use(decision: Decision, name: str) -> tuple[Reason, str]:
    """Which plan the replicas run; `name` is that of the current one."""
    if decision.state is RolloutState.ROLLED_BACK:
        return (
            Reason.ROLLED_BACK,
            f"The plan of the present spec failed and all replicas run the plan {name}: correct the"
            " spec to try once more.",
        )
    if decision.state is RolloutState.HELD:
        return (
            Reason.HELD,
            f"The plan {name} failed and is held beside the one that serves: correct the spec, or"
            " set onFailure to Rollback.",
        )
    if decision.state is RolloutState.STEADY and len(decision.targets) == 1:
        return Reason.CURRENT, f"All replicas run the plan {name}, and no better one is known."
    return Reason.CURRENT, f"Replicas change to the plan {name}."


def _ready(found: dict[C, Verdict]) -> Verdict:
    """Accepted, available and no failure pending; else the reason that helps most."""
    cause = _most_useful(found)
    return Verdict(C.READY, cause.reason, cause.message)


def _most_useful(found: dict[C, Verdict]) -> Verdict:
    accepted, available, progressing = found[C.ACCEPTED], found[C.AVAILABLE], found[C.PROGRESSING]
    if not accepted.holds:
        return accepted
    # Of a replica that is gone nothing else tells.
    failed = (progressing.reason, available.reason) == (Reason.FAILED, Reason.NO_READY_REPLICA)
    if failed or progressing.reason in _PENDING_FAILURES:
        return progressing
    if available.holds:
        return available
    if not found[C.SCHEDULED].holds and available.reason is Reason.NO_READY_REPLICA:
        return found[C.SCHEDULED]
    if progressing.holds and available.reason is Reason.NO_READY_REPLICA:
        return progressing
    return available
