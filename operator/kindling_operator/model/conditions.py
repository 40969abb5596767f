"""The conditions of an InferenceModel: their types, their reasons, and how one is set.

What each reason means, with an example and what to do, is the table in `conditions_table`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from kindling_operator.model.fields import MAX_EXACT, doc

MESSAGE_BYTES: Final = 1024
"""Longest message in bytes of UTF-8: one sentence has to fit a terminal."""


class ConditionType(StrEnum):
    """What a condition tells; True is always the good news."""

    ACCEPTED = "Accepted"
    SCHEDULED = "Scheduled"
    IDENTITY_READY = "IdentityReady"
    CACHE_READY = "CacheReady"
    PROGRESSING = "Progressing"
    AVAILABLE = "Available"
    SCALING_ACTIVE = "ScalingActive"
    PLAN_CURRENT = "PlanCurrent"
    READY = "Ready"


class ConditionStatus(StrEnum):
    """Kubernetes' three truth values."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition has its status. Each one has a row in `conditions_table.REASONS`."""

    # Accepted
    SPEC_ACCEPTED = "SpecAccepted"
    UNVERIFIED = "Unverified"
    INVALID_SPEC = "InvalidSpec"
    UNKNOWN_MODEL = "UnknownModel"
    INVALID_ARCHITECTURE = "InvalidArchitecture"
    NOT_YET_SUPPORTED = "NotYetSupported"
    FORBIDDEN_ARGUMENT = "ForbiddenArgument"
    NAME_CONFLICT = "NameConflict"
    UNSUPPORTED_CHECKPOINT = "UnsupportedCheckpoint"
    UNSUPPORTED_PARALLELISM = "UnsupportedParallelism"
    BROKEN_COMBINATION = "BrokenCombination"
    NO_SUPPORTED_GPU = "NoSupportedGPU"
    WEIGHTS_DO_NOT_FIT = "WeightsDoNotFit"
    CONTEXT_DOES_NOT_FIT = "ContextDoesNotFit"
    CONTEXT_TOO_LONG = "ContextTooLong"

    # Scheduled
    PODS_SCHEDULED = "PodsScheduled"
    PODS_PENDING = "PodsPending"
    PODS_REFUSED = "PodsRefused"
    INSUFFICIENT_GPU = "InsufficientGPU"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    NO_MATCHING_NODE = "NoMatchingNode"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    IMAGE_NOT_PULLABLE = "ImageNotPullable"
    CLAIM_NOT_BOUND = "ClaimNotBound"
    LEADER_WORKER_SET_MISSING = "LeaderWorkerSetMissing"

    # IdentityReady and CacheReady
    NOT_CONFIGURED = "NotConfigured"
    IDENTITY_PROVEN = "IdentityProven"
    IDENTITY_UNPROVEN = "IdentityUnproven"
    TOKEN_REFUSED = "TokenRefused"
    ACCESS_DENIED = "AccessDenied"
    WRONG_AUDIENCE = "WrongAudience"
    STATIC_CREDENTIALS_REFUSED = "StaticCredentialsRefused"
    TIERS_IN_USE = "TiersInUse"
    STORE_UNREACHABLE = "StoreUnreachable"
    BREAKER_OPEN = "BreakerOpen"
    DOES_NOT_PAY = "DoesNotPay"

    # Progressing
    CREATING = "Creating"
    DOWNLOADING = "Downloading"
    LOADING = "Loading"
    DRAINING = "Draining"
    ROLLING_OUT = "RollingOut"
    COMPLETE = "Complete"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    HELD = "Held"
    APPLY_REFUSED = "ApplyRefused"

    # Available
    SERVING = "Serving"
    NO_READY_REPLICA = "NoReadyReplica"
    SCALED_TO_ZERO = "ScaledToZero"
    WEIGHTS_INCOMPLETE = "WeightsIncomplete"
    PREFLIGHT_FAILED = "PreflightFailed"
    CONTRACT_MISMATCH = "ContractMismatch"
    CONTAINER_NOT_STARTED = "ContainerNotStarted"
    ENGINE_FAILED = "EngineFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    ENGINE_STALLED = "EngineStalled"

    # ScalingActive
    SCALING = "Scaling"
    REPLICAS_IGNORED = "ReplicasIgnored"
    DISABLED = "Disabled"
    METRICS_BLIND = "MetricsBlind"
    ROLLOUT_FROZEN = "RolloutFrozen"

    # PlanCurrent
    CURRENT = "Current"
    NOT_MEASURED = "NotMeasured"
    PLAN_MISMATCH = "PlanMismatch"
    BETTER_PLAN_AVAILABLE = "BetterPlanAvailable"

    # every condition that follows from Accepted
    NOT_ACCEPTED = "NotAccepted"


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """What a reason says. `on` gives the conditions that may carry it, with their status.

    Beside these, Ready repeats the reason of whatever keeps the object from being ready.
    """

    on: Mapping[ConditionType, ConditionStatus]
    example: str
    remedy: str


def true_for(*conditions: ConditionType) -> dict[ConditionType, ConditionStatus]:
    """The conditions, each True."""
    return dict.fromkeys(conditions, ConditionStatus.TRUE)


def false_for(*conditions: ConditionType) -> dict[ConditionType, ConditionStatus]:
    """The conditions, each False."""
    return dict.fromkeys(conditions, ConditionStatus.FALSE)


def unknown_for(*conditions: ConditionType) -> dict[ConditionType, ConditionStatus]:
    """The conditions, each Unknown."""
    return dict.fromkeys(conditions, ConditionStatus.UNKNOWN)


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One condition, as metav1.Condition: time in RFC 3339, UTC, whole seconds."""

    type: Annotated[
        Annotated[str, Meta(min_length=1, max_length=316)], doc("What the condition tells.")
    ]
    status: Annotated[ConditionStatus, doc("Whether it holds; Unknown if nobody knows yet.")]
    observed_generation: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_EXACT)],
        doc("Generation of the spec that the condition was computed from."),
    ]
    last_transition_time: Annotated[
        Annotated[str, Meta(max_length=32, extra_json_schema={"format": "date-time"})],
        doc("When `status` last changed."),
    ]
    reason: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1024)],
        doc("Why, in one word; docs/reference/conditions.md lists them all."),
    ]
    message: Annotated[
        Annotated[str, Meta(max_length=32768)],
        doc("Why, in one sentence: what is wrong, the number, the fix."),
    ]


_UNSHOWN: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]"
)
"""Colours of a terminal, control characters that are no white space (C0, DEL, C1), and halves of
characters."""


def fit_message(message: str) -> str:
    """The message within MESSAGE_BYTES, on one line, cut after a whole word where it is longer.

    Pods and other controllers write parts of it, and terminals print it: nothing in it steers one.
    """
    # Nearly all are fine as they are, and there are many.
    plain = message.isascii() and message.isprintable() and len(message) <= MESSAGE_BYTES
    if plain and "  " not in message and message == message.strip():
        return message
    line = " ".join(_UNSHOWN.sub("", message).split())
    if len(line.encode()) <= MESSAGE_BYTES:
        return line
    room = MESSAGE_BYTES - len(" …".encode())
    head = line.encode()[:room].decode(errors="ignore")
    return f"{head.rpartition(' ')[0] or head} …"


def rfc3339(moment: datetime) -> str:
    """An aware time as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_condition(
    kind: ConditionType,
    status: ConditionStatus,
    *,
    reason: Reason,
    message: str,
    generation: int,
    now: datetime,
) -> Condition:
    """A condition as of `now`; `set_condition` keeps the old transition time where it applies."""
    return Condition(
        type=kind.value,
        status=status,
        observed_generation=generation,
        last_transition_time=rfc3339(now),
        reason=reason.value,
        message=fit_message(message),
    )


def set_condition(existing: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """The conditions with `new` in its place, in the order of ConditionType.

    While `status` stays, lastTransitionTime stays. Conditions of other writers are kept, last.
    """
    order = {kind.value: place for place, kind in enumerate(ConditionType)}
    by_type = {condition.type: condition for condition in existing}
    old = by_type.get(new.type)
    if old is not None and old.status is new.status:
        new = structs.replace(new, last_transition_time=old.last_transition_time)
    by_type[new.type] = new
    return tuple(sorted(by_type.values(), key=lambda c: (order.get(c.type, len(order)), c.type)))
