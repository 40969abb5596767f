"""``spec`` of an InferenceModel, field by field: the source of the CRD and of its reference page.

A field with a default here has that default in the CRD. None means that Kindling chooses, or that
the feature is off; the field's description says which.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta

from kindling_operator.model.api_cache import Cache
from kindling_operator.model.api_model import Model
from kindling_operator.model.api_placement import Placement, Runtime
from kindling_operator.model.api_serving import Endpoint, OneOrMore, Serving
from kindling_operator.model.fields import (
    Duration,
    Latency,
    Rule,
    Spec,
    doc,
)


class OnFailure(StrEnum):
    """What to do with a revision that never became ready."""

    ROLLBACK = "Rollback"
    HOLD = "Hold"


ReplicaCount = Annotated[int, Meta(ge=0, le=1000)]
TokensPerSecond = Annotated[int, Meta(ge=1, le=100_000_000)]


class Objective(Spec, frozen=True, kw_only=True):
    """Latency that scaling aims for."""

    ttft: Annotated[Latency | None, doc("Time to the first token, such as 2s.")] = None
    tpot: Annotated[Latency | None, doc("Time per further token, such as 60ms.")] = None


class Scaling(Spec, frozen=True, kw_only=True):
    """The range in which Kindling chooses the number of replicas."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.minReplicas <= self.maxReplicas",
            message="`minReplicas` %d must not exceed `maxReplicas` %d",
            holds=lambda s: s.min_replicas <= s.max_replicas,
            values=(
                ("self.minReplicas", lambda s: s.min_replicas),
                ("self.maxReplicas", lambda s: s.max_replicas),
            ),
        ),
    )

    min_replicas: Annotated[
        ReplicaCount, doc("Fewest replicas; 0 allows scale to zero when there is no request.")
    ] = 1
    max_replicas: Annotated[OneOrMore, doc("Most replicas.")]
    objective: Annotated[
        Objective | None, doc("Latency to aim for. Default: the catalog's for the model.")
    ] = None
    scale_to_zero_after: Annotated[
        Duration | None, doc("Time without a request before the last replica goes. Default: 15m.")
    ] = None
    prefill_tokens_per_second: Annotated[
        TokensPerSecond | None,
        doc("Prompt tokens per second of one replica, if measured. Default: learned."),
    ] = None


class Rollout(Spec, frozen=True, kw_only=True):
    """How a change reaches the replicas."""

    progress_deadline: Annotated[
        Duration | None,
        doc(
            "Time in which a new replica must generate a token. Default: 45m, or what the plan"
            " allows a start where that is longer."
        ),
    ] = None
    drain_deadline: Annotated[
        Duration, doc("Time in which a leaving replica may finish its streams.")
    ] = "10m"
    on_failure: Annotated[
        OnFailure,
        doc("Rollback returns to the last revision that served; Hold leaves things as they are."),
    ] = OnFailure.ROLLBACK


class InferenceModelSpec(Spec, frozen=True, kw_only=True):
    """What the user wants served."""

    model: Annotated[Model, doc("What to serve.")]
    serving: Annotated[Serving, doc("What a replica can do.")] = Serving()
    endpoint: Annotated[Endpoint, doc("The OpenAI endpoint inside the cluster.")] = Endpoint()
    placement: Annotated[
        Placement | None, doc("Where replicas may run. Default: wherever the model fits.")
    ] = None
    runtime: Annotated[
        Runtime | None, doc("The serving pod. Default: the chart's image and what the plan needs.")
    ] = None
    replicas: Annotated[
        ReplicaCount,
        doc("Number of replicas; a HorizontalPodAutoscaler may set it."),
    ] = 1
    scaling: Annotated[
        Scaling | None, doc("Range for automatic scaling. Default: `replicas` is kept.")
    ] = None
    cache: Annotated[
        Cache | None, doc("KV cache below GPU memory. Default: host memory as the plan chooses.")
    ] = None
    rollout: Annotated[Rollout, doc("How a change reaches the replicas.")] = Rollout()
