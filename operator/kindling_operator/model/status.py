"""``status`` of an InferenceModel: what the user reads back, and how it is put on the wire.

The report stage writes it whole, with server-side apply: an omitted field is removed. Ratios are
decimal strings with two digits, so that a rounded value has one spelling.
"""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from kindling_operator.model.conditions import MESSAGE_BYTES, Condition
from kindling_operator.model.fields import MAX_EXACT, doc

MAX_REJECTED = 20
"""Rejected options in status; the rest are counted in `rejectedTotal`."""

MAX_LINE = 256
"""Characters of a text that is shown in a column."""

Whole = Annotated[int, Meta(ge=0, le=MAX_EXACT)]
ReplicaTotal = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Short = Annotated[str, Meta(max_length=63)]
Line = Annotated[str, Meta(max_length=MAX_LINE)]
Sentence = Annotated[str, Meta(max_length=MESSAGE_BYTES)]
Decimal = Annotated[str, Meta(max_length=16)]


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all parts of status. Fields that this version does not know are ignored on reading:
    an older or newer operator may have written them."""


class Basis(StrEnum):
    """How a byte count is known."""

    EXACT = "Exact"
    MEASURED = "Measured"
    ESTIMATED = "Estimated"


class StoreState(StrEnum):
    """The circuit breaker in front of the object store."""

    CLOSED = "Closed"
    HALF_OPEN = "HalfOpen"
    OPEN = "Open"


class GpuStatus(Report, frozen=True, kw_only=True, omit_defaults=False):
    """The GPUs of one replica."""

    product: Annotated[Short, doc("Node label nvidia.com/gpu.product; empty on CPU.")] = ""
    architecture: Annotated[Short, doc("CPU architecture of the nodes, such as amd64.")] = ""
    per_replica: Annotated[ReplicaTotal, doc("GPUs of one replica; 0 on CPU.")] = 0
    nodes_per_replica: Annotated[ReplicaTotal, doc("Nodes that one replica spans.")] = 1


class ParallelismStatus(Report, frozen=True, kw_only=True, omit_defaults=False):
    """How the model is divided over the GPUs of a replica."""

    tensor: Annotated[ReplicaTotal, doc("GPUs that share each layer.")] = 1
    pipeline: Annotated[ReplicaTotal, doc("Stages of layers, one after the other.")] = 1
    data: Annotated[ReplicaTotal, doc("Copies of the attention layers.")] = 1
    expert: Annotated[bool, doc("Whether experts are spread over all GPUs of the replica.")] = False


class KVCacheStatus(Report, frozen=True, kw_only=True):
    """The KV cache of one replica."""

    blocks: Annotated[Whole, doc("Blocks in the pool.")]
    blocks_per_request: Annotated[Whole, doc("Blocks that a request of full context takes.")]
    tokens: Annotated[Whole, doc("Tokens that fit in all, as vLLM logs it.")]
    full_context_requests: Annotated[
        Decimal, doc("Requests of full context that fit at the same time, such as 27.1.")
    ]


class MemoryItem(Report, frozen=True, kw_only=True, omit_defaults=False):
    """One line of a byte budget."""

    item: Annotated[Short, doc("What the memory is for.")]
    bytes: Annotated[Whole, doc("Bytes.")]
    basis: Annotated[
        Basis, doc("Exact: computed; Measured: seen in a run of this GPU; Estimated: neither.")
    ]


class AttentionBackend(Report, frozen=True, kw_only=True):
    """The kernel of one attention group."""

    group: Annotated[Short, doc("Name of the attention group.")]
    backend: Annotated[Short, doc("vLLM's name of the backend.")]


class RejectedOption(Report, frozen=True, kw_only=True):
    """An option that was considered and not taken."""

    option: Annotated[Line, doc("The option, such as BF16 TP8 on one node.")]
    reason: Annotated[Short, doc("Why not, in one word.")]
    message: Annotated[Sentence, doc("Why not, with the number.")]


class BetterPlan(Report, frozen=True, kw_only=True):
    """A plan that waits for the user's word (`kindling replan`)."""

    reason: Annotated[Short, doc("Why it is better, in one word.")]
    message: Annotated[Sentence, doc("What it would change.")]


class PlanStatus(Report, frozen=True, kw_only=True):
    """The plan that replicas run."""

    digest: Annotated[Short, doc("Digest of everything that the plan depends on.")]
    revision: Annotated[Line, doc("Name of the ControllerRevision that keeps the plan.")]
    replan: Annotated[Line, doc("Value of kindling.dev/replan that this plan honours.")] = ""
    summary: Annotated[Line, doc("The plan in one line.")]
    checkpoint: Annotated[Short, doc("Weights that are served.")]
    gpu: Annotated[GpuStatus | None, doc("The GPUs of one replica; not given on CPU.")] = None
    parallelism: Annotated[ParallelismStatus, doc("How the model is divided over the GPUs.")] = (
        ParallelismStatus()
    )
    context_length: Annotated[ReplicaTotal, doc("Longest request in tokens.")]
    kv_cache: Annotated[KVCacheStatus, doc("The KV cache of one replica.")]
    memory_per_gpu: Annotated[
        tuple[MemoryItem, ...],
        Meta(
            max_length=32,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["item"],
            },
        ),
        doc("What the memory of each GPU is for."),
    ] = msgspec.field(default=(), name="memoryPerGPU")
    memory_per_pod: Annotated[
        tuple[MemoryItem, ...],
        Meta(
            max_length=32,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["item"],
            },
        ),
        doc("What the host memory of each pod is for."),
    ] = ()
    attention_backends: Annotated[
        tuple[AttentionBackend, ...],
        Meta(
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["group"],
            },
        ),
        doc("The kernel of each attention group."),
    ] = ()
    rejected: Annotated[
        tuple[RejectedOption, ...],
        Meta(
            max_length=MAX_REJECTED,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["option"],
            },
        ),
        doc("Options that were considered and not taken, the nearest first."),
    ] = ()
    rejected_total: Annotated[
        ReplicaTotal, doc("Number of rejected options, those not listed included.")
    ] = 0
    better: Annotated[BetterPlan | None, doc("A plan that waits for `kindling replan`.")] = None


class HitRate(Report, frozen=True, kw_only=True):
    """Share of prompt tokens that were not computed again, 0.00 to 1.00, rounded to 0.05."""

    total: Annotated[Decimal, doc("All tiers together.")]
    device: Annotated[Decimal, doc("From GPU memory.")] = ""
    host: Annotated[Decimal, doc("From host memory.")] = ""
    object_store: Annotated[Decimal, doc("From the object store.")] = ""


class StoreStatus(Report, frozen=True, kw_only=True):
    """The object store as the replicas see it."""

    state: Annotated[
        StoreState, doc("Closed: in use; Open: left out after failures; HalfOpen: tried again.")
    ]


class CacheStatus(Report, frozen=True, kw_only=True):
    """What the KV cache saves."""

    hit_rate: Annotated[
        HitRate | None, doc("Share of prompt tokens that were not computed again.")
    ] = None
    object_store: Annotated[StoreStatus | None, doc("The object store, if there is one.")] = None


class ScalingStatus(Report, frozen=True, kw_only=True):
    """The last decision about the number of replicas."""

    desired: Annotated[ReplicaTotal, doc("Replicas that are wanted.")]
    reason: Annotated[Short, doc("Why, in one word.")]
    message: Annotated[Sentence, doc("Why, with the number.")]


class InferenceModelStatus(Report, frozen=True, kw_only=True):
    """What became of the spec."""

    observed_generation: Annotated[
        Whole, doc("Generation of the spec that this status was computed from.")
    ] = 0
    endpoint: Annotated[
        Annotated[str, Meta(max_length=512)], doc("Base URL of the OpenAI API in the cluster.")
    ] = ""
    replicas: Annotated[ReplicaTotal | None, doc("Replicas that exist, ready or not.")] = None
    ready_replicas: Annotated[ReplicaTotal | None, doc("Replicas that generate tokens.")] = None
    updated_replicas: Annotated[ReplicaTotal | None, doc("Replicas of the newest plan.")] = None
    draining_replicas: Annotated[
        ReplicaTotal | None, doc("Replicas that finish their streams and then leave.")
    ] = None
    selector: Annotated[
        Annotated[str, Meta(max_length=512)],
        doc("Label selector of the serving pods that count as replicas, for autoscalers."),
    ] = ""
    plan: Annotated[PlanStatus | None, doc("The plan that replicas run.")] = None
    cache: Annotated[CacheStatus | None, doc("What the KV cache saves.")] = None
    scaling: Annotated[
        ScalingStatus | None, doc("The last decision about the number of replicas.")
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
        doc("Whether it is served and, if not, why; Ready sums the others up."),
    ] = ()

    def to_wire(self) -> dict[str, Any]:
        """The status as JSON values, ready for server-side apply."""
        wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return wire


def stored_conditions(status: Any) -> tuple[Condition, ...]:
    """The conditions of a stored status; what cannot be read counts as absent."""
    stored = status.get("conditions", ()) if isinstance(status, dict) else ()
    conditions = []
    for item in stored:
        try:
            conditions.append(msgspec.convert(item, Condition))
        except msgspec.ValidationError:
            continue
    return tuple(conditions)
