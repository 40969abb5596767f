"""Events: transitions between two statuses, told once. The constructors are pure."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import ConflictError, KubeError
from kindling_operator.kube.kinds import EVENT, MODEL
from kindling_operator.model.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    fit_message,
    rfc3339,
)
from kindling_operator.model.names import GROUP, Key
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import InferenceModelStatus
from kindling_operator.plan.workloads import workload_of

logger = logging.getLogger(__name__)

REPORTING_CONTROLLER: Final = f"{GROUP}/operator"

_NORMAL, _WARNING = "Normal", "Warning"
_REPLICA_FAILURES: Final = frozenset(
    {
        Reason.WEIGHTS_INCOMPLETE.value,
        Reason.PREFLIGHT_FAILED.value,
        Reason.CONTRACT_MISMATCH.value,
        Reason.CONTAINER_NOT_STARTED.value,
        Reason.ENGINE_FAILED.value,
        Reason.OUT_OF_MEMORY.value,
        Reason.START_DEADLINE_EXCEEDED.value,
        Reason.ENGINE_STALLED.value,
        Reason.IMAGE_NOT_PULLABLE.value,
    }
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: `reason` is its name, `action` what the operator was doing.

    `once` is the uid of what it happens to once, whatever the spec is by then; "" for the rest.
    """

    type: str
    reason: str
    action: str
    note: str
    once: str = ""


def transitions(
    snapshot: Snapshot, decision: Decision, new: InferenceModelStatus
) -> tuple[Event, ...]:
    """What happened between the stored status and the new one, in the order of telling."""
    model = snapshot.models[decision.key]
    old = _stored(model)
    before = {condition.type: condition for condition in old.conditions}
    after = {condition.type: condition for condition in new.conditions}
    found = (
        _refused(before, after),
        _chosen(old, new),
        *_rollout(before, after),
        _scaled(snapshot, decision),
        _released(snapshot, decision),
        _replica_ready(old, new),
        _replica_failed(before, after),
    )
    return tuple(event for event in found if event is not None)


def cuts(snapshot: Snapshot, key: Key) -> tuple[Event, ...]:
    """Each pod of the model that cut requests when it left, and of which nobody was told yet."""
    return tuple(
        Event(
            _WARNING,
            "RequestsCut",
            "Drain",
            f"{cut.pod} was told to leave, and {cut.words.rstrip('.')}: raise"
            " spec.rollout.drainDeadline if requests need longer (replicas of the next revision"
            " have it).",
            once=cut.uid,
        )
        for cut in snapshot.cuts.get(key, ())
    )


def _refused(before: Mapping[str, Condition], after: Mapping[str, Condition]) -> Event | None:
    accepted = after[ConditionType.ACCEPTED]
    if accepted.status is not ConditionStatus.FALSE or _same(before, accepted):
        return None
    return Event(_WARNING, "PlanRefused", "Plan", f"{accepted.reason}: {accepted.message}")


def _chosen(old: InferenceModelStatus, new: InferenceModelStatus) -> Event | None:
    if new.plan is None or (old.plan is not None and old.plan.revision == new.plan.revision):
        return None
    return Event(_NORMAL, "PlanChosen", "Plan", f"{new.plan.revision}: {new.plan.summary}")


def _rollout(
    before: Mapping[str, Condition], after: Mapping[str, Condition]
) -> tuple[Event | None, ...]:
    progressing = after[ConditionType.PROGRESSING]
    was = before.get(ConditionType.PROGRESSING)
    old = was.reason if was is not None else ""
    if progressing.reason == old:
        return ()
    rolling = {Reason.ROLLING_OUT.value, Reason.DRAINING.value}
    if progressing.reason == Reason.ROLLING_OUT and old not in rolling:
        return (Event(_NORMAL, "RolloutStarted", "Rollout", progressing.message),)
    if progressing.reason == Reason.COMPLETE and old in rolling:
        return (Event(_NORMAL, "RolloutCompleted", "Rollout", progressing.message),)
    if progressing.reason == Reason.ROLLED_BACK:
        return (Event(_WARNING, "RolloutRolledBack", "Rollout", progressing.message),)
    if progressing.reason in {Reason.HELD, Reason.DEADLINE_EXCEEDED}:
        return (Event(_WARNING, "RolloutFailed", "Rollout", progressing.message),)
    return ()


def _scaled(snapshot: Snapshot, decision: Decision) -> Event | None:
    """The number of replicas of the current revision is about to change, or has just been."""
    if decision.current is None or not decision.targets or decision.untouched:
        return None
    stands = workload_of(snapshot, snapshot.models[decision.key], decision.current)
    target = decision.targets[0]
    wanted = target.replicas if target.revision.plan.group is None else len(target.groups)
    if stands is None or stands.replicas == wanted:
        return None
    return Event(_NORMAL, "Scaled", "Scale", f"From {stands.replicas} to {wanted} replicas.")


def _released(snapshot: Snapshot, decision: Decision) -> Event | None:
    """A part of a group held GPUs for nothing, and gives them back in this pass."""
    waits = decision.verdict(ConditionType.SCHEDULED) or decision.verdict(ConditionType.PROGRESSING)
    released = decision.current.released if decision.current is not None else None
    if waits is None or released is None or released != snapshot.now:
        return None
    return Event(_WARNING, "GroupReleased", "Scale", waits.message)


def _replica_ready(old: InferenceModelStatus, new: InferenceModelStatus) -> Event | None:
    if (new.ready_replicas or 0) <= (old.ready_replicas or 0):
        return None
    return Event(
        _NORMAL,
        "ReplicaReady",
        "Serve",
        f"{new.ready_replicas} of {new.replicas} replicas generate tokens.",
    )


def _replica_failed(
    before: Mapping[str, Condition], after: Mapping[str, Condition]
) -> Event | None:
    available = after[ConditionType.AVAILABLE]
    if available.reason not in _REPLICA_FAILURES or _same(before, available):
        return None
    return Event(_WARNING, "ReplicaFailed", "Serve", f"{available.reason}: {available.message}")


def _same(before: Mapping[str, Condition], now: Condition) -> bool:
    was = before.get(now.type)
    return was is not None and (was.reason, was.message) == (now.reason, now.message)


def _stored(model: ParsedModel | Invalid) -> InferenceModelStatus:
    try:
        return msgspec.convert(dict(model.status), InferenceModelStatus)
    except msgspec.ValidationError:
        return InferenceModelStatus()


def manifest(
    event: Event, model: ParsedModel | Invalid, *, now: datetime, instance: str
) -> dict[str, Any]:
    """The object of an event.

    Its name holds no time: what happens again under the same spec makes the same name, which the
    API server refuses for as long as it keeps the first (an hour unless --event-ttl says else). So
    a state that flaps is told once, also across restarts, and a spec that comes back is told anew.
    """
    key, uid = model.metadata.key, model.metadata.uid
    same = f"{uid}/{model.metadata.generation}/{event.reason}/{event.note}"
    if event.once:
        same = f"{uid}/{event.reason}/{event.once}"
    digest = hashlib.sha256(same.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"namespace": key.namespace, "name": f"{key.name}.{digest}"},
        "eventTime": rfc3339(now).replace("Z", f".{now.microsecond:06d}Z"),
        "type": event.type,
        "reason": event.reason,
        "action": event.action,
        "note": fit_message(event.note),
        "reportingController": REPORTING_CONTROLLER,
        "reportingInstance": instance,
        "regarding": {
            "apiVersion": MODEL.api_version,
            "kind": MODEL.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid,
        },
    }


class Recorder:
    """Tells events. One that cannot be told is logged and forgotten: it must not stop a pass."""

    def __init__(self, kube: Kube, *, instance: str) -> None:
        """`instance` is the name of this process's pod."""
        self._kube = kube
        self._instance = instance

    async def tell(
        self, events: Sequence[Event], model: ParsedModel | Invalid, *, now: datetime
    ) -> None:
        """Create the events, one after the other."""
        for event in events:
            body = manifest(event, model, now=now, instance=self._instance)
            try:
                await self._kube.create(body, EVENT)
            except ConflictError:
                continue
            except KubeError as error:
                logger.warning("an event was not told: %s", error)
