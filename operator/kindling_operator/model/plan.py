"""What a decision is made of: verdicts, the engine plan, revisions, and the rollout step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from kindling_operator.model.architecture import Device
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import Key


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement: which condition it speaks for, whether it holds, why, and what a person should do.

    Born in the check that made it; condition, event and log repeat it unchanged.
    """

    condition: ConditionType
    holds: bool
    reason: Reason
    message: str


class Basis(StrEnum):
    """How a byte count is known."""

    EXACT = "Exact"
    MEASURED = "Measured"
    ESTIMATED = "Estimated"


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of what a ControllerRevision stores. Unknown fields are ignored and new ones have
    defaults: a newer operator reads an older one's revisions and the other way round."""


class MemoryItem(_Wire):
    """One line of a byte budget."""

    item: str
    bytes: int
    basis: Basis


class Rejection(_Wire):
    """An option that was considered and why it was not taken."""

    option: str
    reason: str
    message: str


class Parallelism(_Wire):
    """Sizes of each kind of parallelism of one engine."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False


class KVBudget(_Wire):
    """KV cache of one replica: blocks of the pool, blocks and tokens per full-context request."""

    bytes: int
    blocks: int
    blocks_per_request: int
    tokens: int
    full_context_requests: str


class WeightsMount(_Wire):
    """Where the engine finds the weights. `claim` is a PVC of the namespace, or "" for a path in the image."""

    uri: str
    path: str
    claim: str = ""
    sub_path: str = ""


class EnginePlan(_Wire):
    """What one replica runs, complete: the pod template and launch plan are functions of it.

    Memory in bytes, durations in seconds. `argv` is the whole engine command.
    """

    summary: str
    checkpoint: str
    device: Device
    image: str
    served_name: str
    weights: WeightsMount
    context_length: int
    max_num_batched_tokens: int
    max_num_seqs: int
    argv: tuple[str, ...]
    env: dict[str, str]
    startup_seconds: int
    drain_seconds: int
    kv: KVBudget
    cpu_millis: int
    memory: int
    shared_memory: int
    service_account: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class: str = ""
    gpu_product: str = ""
    architectures: tuple[str, ...] = ("amd64",)
    gpus_per_replica: int = 0
    nodes_per_replica: int = 1
    parallelism: Parallelism = Parallelism()
    memory_per_gpu: tuple[MemoryItem, ...] = ()
    memory_per_pod: tuple[MemoryItem, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    rejected_total: int = 0


@dataclass(frozen=True, slots=True)
class Revision:
    """One frozen plan with what it was rendered to.

    `template` (pod template) and `launch` (launch plan, JSON text) are None only for a revision
    that is not stored yet: render makes them, and from then on they are re-applied verbatim.
    """

    hash: str
    inputs: str
    replan: str
    plan: EnginePlan
    served: bool = False
    created: datetime | None = None
    template: Mapping[str, Any] | None = None
    launch: str | None = None


@dataclass(frozen=True, slots=True)
class RevisionTarget:
    """How many replicas a revision should have now; 0 keeps its Deployment, empty."""

    revision: Revision
    replicas: int


class RolloutState(StrEnum):
    """Where the change to the newest revision stands."""

    STEADY = "Steady"
    ROLLING = "Rolling"
    ROLLED_BACK = "RolledBack"
    HELD = "Held"


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of plan() for one model.

    `verdicts` holds at most one per condition, Accepted first.
    `targets` are the revisions that should have a Deployment, newest first; `kept` those whose
    ControllerRevision alone stays as history. A refused or waiting model with nothing stored has
    neither: nothing is created for it. With something stored, that keeps running.
    `current` is the newest target. `better` is set when a fresh plan differs from the frozen one.
    """

    key: Key
    verdicts: tuple[Verdict, ...]
    targets: tuple[RevisionTarget, ...] = ()
    kept: tuple[Revision, ...] = ()
    current: Revision | None = None
    state: RolloutState = RolloutState.STEADY
    better: Verdict | None = None
    desired_replicas: int = 0

    def verdict(self, condition: ConditionType) -> Verdict | None:
        """What was judged about a condition, or None."""
        return next((v for v in self.verdicts if v.condition is condition), None)

    @property
    def refused(self) -> Verdict | None:
        """Why the present spec is not accepted, or None."""
        accepted = self.verdict(ConditionType.ACCEPTED)
        return accepted if accepted is not None and not accepted.holds else None
