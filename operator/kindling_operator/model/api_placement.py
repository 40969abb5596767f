"""``spec.placement`` and ``spec.runtime``: where replicas run and in which pods."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta, field

from kindling_operator.model.fields import (
    AS_SET,
    ATOMIC,
    BY_NAME,
    ObjectName,
    ObjectRef,
    Quantity,
    Rule,
    Spec,
    doc,
    judged,
    matches,
    text,
)


class TolerationOperator(StrEnum):
    """How a toleration compares its value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What an untolerated taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


Ranks = Annotated[int, Meta(ge=1, le=1024)]
Seconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_LABEL_KEY: Final = (
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_BAD_KEYS: Final = f"self.filter(key, !key.matches(r'{_LABEL_KEY}'))"


def _bad_keys(labels: dict[str, str]) -> list[str]:
    return [key for key in labels if not re.fullmatch(_LABEL_KEY, key)]


LabelKey = Annotated[
    str,
    text(317, matches(_LABEL_KEY, "write a label key, such as nvidia.com/gpu.product or pool")),
]
LabelValue = Annotated[
    str,
    Meta(max_length=63),
    judged(
        matches(
            "^(|[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$",
            "write a label value: letters, digits, '-', '_' and '.'",
        )
    ),
]
NodeSelector = Annotated[
    dict[Annotated[str, text(317)], LabelValue],
    Meta(max_length=32),
    judged(
        Rule(
            cel=f"{_BAD_KEYS}.size() == 0",
            message="%s is no label key, such as nvidia.com/gpu.product or pool: correct it",
            holds=lambda labels: not _bad_keys(labels),
            values=((f"{_BAD_KEYS}[0]", lambda labels: _bad_keys(labels)[0]),),
        )
    ),
]


class Gpu(Spec, frozen=True, kw_only=True):
    """Which GPUs may be used."""

    products: Annotated[
        tuple[LabelValue, ...],
        Meta(max_length=16),
        AS_SET,
        doc("Accepted values of the node label nvidia.com/gpu.product. Default: all supported."),
    ] = ()
    min_memory: Annotated[Quantity | None, doc("Least memory of one GPU, such as 80Gi.")] = None


class Parallelism(Spec, frozen=True, kw_only=True):
    """Sizes that the user insists on; each omitted one is chosen."""

    tensor: Annotated[Ranks | None, doc("GPUs that share each layer.")] = None
    pipeline: Annotated[Ranks | None, doc("Stages of layers, one after the other.")] = None
    data: Annotated[Ranks | None, doc("Copies of the attention layers in one replica.")] = None
    expert: Annotated[
        bool | None, doc("Whether the experts are spread over all GPUs of the replica.")
    ] = None


class Toleration(Spec, frozen=True, kw_only=True):
    """A taint that the pods tolerate, as in a pod's own tolerations."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            message="give `key`, or `operator: Exists` to tolerate every taint",
            holds=lambda t: t.key is not None or t.operator is TolerationOperator.EXISTS,
        ),
        Rule(
            cel="!has(self.operator) || self.operator != 'Exists' || !has(self.value)",
            message="`operator: Exists` looks at no value: remove `value` %s",
            holds=lambda t: t.operator is not TolerationOperator.EXISTS or t.value is None,
            values=(("self.value", lambda t: t.value),),
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="`tolerationSeconds` is for `effect: NoExecute` only: remove it",
            holds=lambda t: t.toleration_seconds is None or t.effect is TaintEffect.NO_EXECUTE,
        ),
    )

    key: Annotated[LabelKey | None, doc("Taint key. Not given: every key, with Exists.")] = None
    operator: Annotated[TolerationOperator | None, doc("How `value` is compared.")] = None
    value: Annotated[LabelValue | None, doc("Taint value, with Equal.")] = None
    effect: Annotated[TaintEffect | None, doc("Taint effect. Not given: every effect.")] = None
    toleration_seconds: Annotated[
        Seconds | None, doc("Seconds that a NoExecute taint is tolerated. Not given: forever.")
    ] = None


class Placement(Spec, frozen=True, kw_only=True):
    """Where replicas may run."""

    gpu: Annotated[
        Gpu | None, doc("Which GPUs may be used. Default: all that the model runs on.")
    ] = None
    parallelism: Annotated[
        Parallelism | None, doc("Sizes to insist on. Default: Kindling chooses.")
    ] = None
    max_gpus_per_replica: Annotated[
        Ranks | None, doc("Most GPUs that one replica may take. Default: no limit.")
    ] = None
    node_selector: Annotated[NodeSelector, doc("Labels that a node must have.")] = field(
        default_factory=dict
    )
    tolerations: Annotated[
        tuple[Toleration, ...], Meta(max_length=32), ATOMIC, doc("Taints that pods tolerate.")
    ] = ()
    priority_class_name: Annotated[
        ObjectName | None, doc("PriorityClass of the pods; also the order in which models plan.")
    ] = None


_HOST: Final = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\]"
_COMPONENT: Final = "[a-z0-9]+(([.]|__?|-+)[a-z0-9]+)*"
_TAG: Final = "[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_DIGEST: Final = "[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,128}"

ImageReference = Annotated[
    str,
    text(
        512,
        matches(
            f"^(({_HOST})(:[0-9]+)?/)?{_COMPONENT}(/{_COMPONENT})*(:{_TAG})?(@{_DIGEST})?$",
            "write an image reference in lower case, such as registry.example.com/team/image:tag"
            " or registry.example.com/team/image@sha256:DIGEST",
        ),
    ),
]
"""As the node's container runtime reads it (github.com/distribution/reference, regexp.go)."""


class ExtraResources(Spec, frozen=True, kw_only=True):
    """CPU and memory on top of what the plan needs."""

    cpu: Annotated[Quantity | None, doc("CPU to add to each pod, such as 4 or 500m.")] = None
    memory: Annotated[Quantity | None, doc("Memory to add to each pod, such as 8Gi.")] = None


class Runtime(Spec, frozen=True, kw_only=True):
    """The serving pod."""

    image: Annotated[
        ImageReference | None,
        doc(
            "Image of the serving pod. Give it by digest (NAME@sha256:DIGEST): of an image given by"
            " tag, compiled kernels do not stay in the cacheClaim, and each start compiles anew."
            " Default: the chart's, by digest."
        ),
    ] = None
    image_pull_secrets: Annotated[
        tuple[ObjectRef, ...],
        Meta(max_length=8),
        BY_NAME,
        doc("Secrets of this namespace for pulling the image."),
    ] = ()
    service_account_name: Annotated[
        ObjectName | None,
        doc("ServiceAccount of the pods. Default: one that Kindling creates and annotates."),
    ] = None
    resources: Annotated[
        ExtraResources | None, doc("CPU and memory on top of what the plan needs.")
    ] = None
