"""What a decision is made of: verdicts, the engine plan, revisions, and the rollout step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from kindling_operator.model.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    fit_message,
)
from kindling_operator.model.conditions_table import status_of
from kindling_operator.model.names import Key
from kindling_operator.model.status import (
    AttentionBackend,
    MemoryItem,
    ParallelismStatus,
    RejectedOption,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement: which condition it speaks for, why, and what a person should do.

    Born in the check that made it; condition, event and log repeat it unchanged. A message is one
    line of at most MESSAGE_BYTES, whatever the names in it.
    """

    condition: ConditionType
    reason: Reason
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", fit_message(self.message))

    @property
    def status(self) -> ConditionStatus:
        """The condition's status, which follows from the reason."""
        return status_of(self.reason, self.condition)

    @property
    def holds(self) -> bool:
        """Whether the condition is True."""
        return self.status is ConditionStatus.TRUE


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of what a ControllerRevision stores. Unknown fields are ignored and new ones have
    defaults: a newer operator reads an older one's revisions and the other way round."""


class KVBudget(_Wire, frozen=True, kw_only=True):
    """KV cache of one replica: blocks of the pool, blocks and tokens per full-context request."""

    bytes: int
    blocks: int
    blocks_per_request: int
    tokens: int
    full_context_requests: str


_SLOW_STORE_BYTES_PER_SECOND = 100 << 20


class FetchPlan(_Wire, frozen=True, kw_only=True):
    """What is downloaded before the engine starts, under the name `key` of the cache.

    `bytes` is what the checkpoint has, `room` what the pod's own volume gives it. `config_uri` is
    where config and tokenizer come from if the weights' source has none, "" for nowhere else. The
    token's Secret is named by `token_secret` and `token_key`, "" without one.
    """

    key: str
    revision: str = ""
    config_uri: str = ""
    bytes: int = 0
    room: int = 0
    token_secret: str = ""
    token_key: str = ""

    @property
    def seconds(self) -> int:
        """What it may take from a slow store."""
        return self.bytes // _SLOW_STORE_BYTES_PER_SECOND


class WeightsMount(_Wire, frozen=True, kw_only=True):
    """Where the engine finds the weights: the folder `path` of its container.

    `claim` is the PersistentVolumeClaim that is mounted for it, "" for a folder of the image and
    for what is downloaded, of which `fetch` tells. `cache_claim` is the claim that keeps downloads
    and compiled kernels, "" for the pod's own volume.
    """

    uri: str
    path: str
    claim: str = ""
    fetch: FetchPlan | None = None
    cache_claim: str = ""


class NodeOperator(StrEnum):
    """How a label is compared (core/v1 NodeSelectorOperator)."""

    IN = "In"
    NOT_IN = "NotIn"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class NodeRequirement(_Wire, frozen=True):
    """A node selector requirement; Gt and Lt have one value, a whole number, and DoesNotExist none.

    With `or_absent` a node without the label meets it too.
    """

    key: str
    operator: NodeOperator
    values: tuple[str, ...] = ()
    or_absent: bool = False


class PodPlan(_Wire, frozen=True, kw_only=True):
    """What the pod around the engine asks of the cluster. Memory and ephemeral storage in bytes,
    CPU in millicores.

    `node_requirements` are demands beside `node_selector`, all of which a node must meet.
    `own_account` is True for a ServiceAccount that is made for the model, False for the user's.
    """

    cpu_millis: int
    memory: int
    shared_memory: int
    ephemeral: int = 0
    service_account: str
    own_account: bool = False
    image_pull_policy: str
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    node_requirements: tuple[NodeRequirement, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class: str = ""
    memory_items: tuple[MemoryItem, ...] = ()


class GpuPlan(_Wire, frozen=True, kw_only=True):
    """The GPUs of one replica: `count` on each of `nodes` nodes.

    `one_clique` is True where these nodes must share an NVLink domain (nvidia.com/gpu.clique).
    `memory` is the bytes of one GPU that the plan was sized for, `capability` its compute
    capability (9.0) and `driver` the oldest that the image runs with; 0 and "" where an older
    release did not store it, or the GPU is a slice. `corrections` are those of vLLM that the
    expected speed counts on.
    """

    product: str
    architecture: str
    count: int = 1
    nodes: int = 1
    one_clique: bool = False
    memory: int = 0
    capability: str = ""
    driver: str = ""
    corrections: tuple[str, ...] = ()
    memory_items: tuple[MemoryItem, ...] = ()


class GroupPlan(_Wire, frozen=True, kw_only=True):
    """A replica of several pods, each with one engine process group of its own.

    `rank_arguments` has one entry per pod, the leader's first: what that pod's command gets on top
    of the plan's `argv`. In them ``{leader}`` stands for the leader's address. `serving` tells for
    each pod whether it answers HTTP (a headless follower does not).
    """

    rank_arguments: tuple[tuple[str, ...], ...]
    serving: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Pods of one replica."""
        return len(self.rank_arguments)


class SpeedTerm(_Wire, frozen=True, kw_only=True):
    """One term of the speed model, in nanoseconds per token and request."""

    item: str
    nanoseconds: int


class SpeedPlan(_Wire, frozen=True, kw_only=True):
    """What the speed model expects of one request at `context` tokens: estimates, all of it.

    `tokens_per_step` counts drafted tokens that are accepted, `prefill_tokens_per_second` is of one
    replica.
    """

    context: int
    decode: tuple[SpeedTerm, ...]
    tokens_per_step: str = "1.00"
    prefill_tokens_per_second: int = 0

    @property
    def step_nanoseconds(self) -> int:
        """Duration of one forward pass."""
        return sum(term.nanoseconds for term in self.decode)


class HostTierPlan(_Wire, frozen=True, kw_only=True):
    """The KV tier in host memory: `bytes` for all ranks of one pod together.

    `chunk_blocks` is vLLM's blocks_per_chunk, `retention_tokens` its
    prefix_cache_retention_interval (0 keeps only the ends of prompts), `why` the choice of both in
    one sentence.
    """

    bytes: int
    chunk_blocks: int
    retention_tokens: int = 0
    why: str = ""


class EnginePlan(_Wire, frozen=True, kw_only=True):
    """What one replica runs, complete: the pod template and launch plan are functions of it.

    `model` is the catalog's name. Durations in seconds. `argv` is the whole engine command, less
    what `group` adds for each pod of a replica that has several. `gpu` is None on CPU.
    `packages` are the distributions that the image must have, `name` or `name==version`.
    `draft_tokens` is 0 without speculation. `why` explains what the plan chose, a sentence each,
    and `reasons` in a few words why each option of the command is given, by its name; empty where
    an older release did not store it.
    `warning` tells what nobody has verified about it and the user insists on.
    """

    summary: str
    model: str
    checkpoint: str
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
    packages: tuple[str, ...] = ()
    kv: KVBudget
    pod: PodPlan
    gpu: GpuPlan | None = None
    parallelism: ParallelismStatus = ParallelismStatus()
    group: GroupPlan | None = None
    reasons: dict[str, str] = {}
    draft_tokens: int = 0
    attention_backends: tuple[AttentionBackend, ...] = ()
    host_tier: HostTierPlan | None = None
    media_domains: tuple[str, ...] = ()
    speed: SpeedPlan | None = None
    why: tuple[str, ...] = ()
    warning: str = ""
    rejected: tuple[RejectedOption, ...] = ()
    rejected_total: int = 0

    @property
    def gpus_per_pod(self) -> int:
        """GPUs that each pod of a replica requests."""
        return self.gpu.count if self.gpu is not None else 0


@dataclass(frozen=True, slots=True)
class Revision:
    """One frozen plan with what it was rendered to.

    `data` is a ControllerRevision's data, kept verbatim: `inputs`, `replan`, `plan`, `template`
    (pod template), `worker` (that of the other pods of a group) and `launch` (launch plan, JSON
    text). It is None only for a revision that is not stored yet: render makes it, and from then on
    it is re-applied as it is.
    `served` is True once a replica of it stood behind the endpoint, `failed` once it was taken back
    instead. `released` is when a group of it last gave its GPUs back, as the rest found no node or
    it failed again and again. `why` is a clause about how replicas ended that are gone.
    """

    hash: str
    inputs: str
    replan: str
    plan: EnginePlan
    served: bool = False
    failed: bool = False
    why: str = ""
    created: datetime | None = None
    released: datetime | None = None
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RevisionTarget:
    """How many replicas a revision should have now; 0 keeps its Deployment, empty.

    `groups` are the numbers of the replicas that are groups of pods: each a LeaderWorkerSet of its
    own, of that number. It is empty where a replica is one pod.
    """

    revision: Revision
    replicas: int
    groups: tuple[int, ...] = ()


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
    `look_again` is when the decision changes by time alone, None if it does not. `untouched` is
    True for a spec that cannot be read: nothing is applied and nothing is pruned. With `ask` the
    rollout waits for an answer of a replica of `current` through the Service. `short` is what the
    next replica without room lacks, None where all have room.
    """

    key: Key
    verdicts: tuple[Verdict, ...]
    targets: tuple[RevisionTarget, ...] = ()
    kept: tuple[Revision, ...] = ()
    current: Revision | None = None
    state: RolloutState = RolloutState.STEADY
    better: Verdict | None = None
    desired_replicas: int = 0
    look_again: datetime | None = None
    untouched: bool = False
    ask: bool = False
    short: Verdict | None = None

    def verdict(self, condition: ConditionType) -> Verdict | None:
        """What was judged about a condition, or None."""
        return next((v for v in self.verdicts if v.condition is condition), None)

    @property
    def refused(self) -> Verdict | None:
        """Why the present spec is not accepted, or None."""
        accepted = self.verdict(ConditionType.ACCEPTED)
        return accepted if accepted is not None and not accepted.holds else None
