"""The parts of an architecture that are about weights: experts, drafts, towers, checkpoints."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from kindling_operator.model.architecture_rules import (
    CHECKPOINT_RULES,
    DRAFT_RULES,
    EXPERTS_RULES,
    TOWER_RULES,
)
from kindling_operator.model.fields import (
    AS_SET,
    ATOMIC,
    MAX_EXACT,
    ByteCount,
    Count,
    GroupName,
    Revision,
    Rule,
    SmallCount,
    Spec,
    Text,
    doc,
    matches,
    text,
)

BytesOrNone = Annotated[int, Meta(ge=0, le=MAX_EXACT)]
Depths = Annotated[int, Meta(ge=1, le=32)]


class CheckpointName(StrEnum):
    """A published number format of a model's weights."""

    BF16 = "BF16"
    NVFP4 = "NVFP4"


class WeightKind(StrEnum):
    """Matrices of a model that a number format may leave in bfloat16."""

    ATTENTION = "Attention"
    DENSE_MLP = "DenseMLP"
    ROUTED_EXPERTS = "RoutedExperts"
    SHARED_EXPERTS = "SharedExperts"


class Modality(StrEnum):
    """What a request may contain."""

    TEXT = "Text"
    IMAGE = "Image"
    AUDIO = "Audio"


class SharedExperts(Spec, frozen=True, kw_only=True):
    """Experts that every token passes."""

    count: Annotated[SmallCount, doc("Shared experts per layer.")]
    intermediate_size: Annotated[Count, doc("Inner width of one shared expert, in elements.")]


class Experts(Spec, frozen=True, kw_only=True):
    """The mixture of experts: which part of the weights a token reads."""

    rules: ClassVar[tuple[Rule, ...]] = EXPERTS_RULES

    count: Annotated[SmallCount, doc("Routed experts per layer.")]
    per_token: Annotated[SmallCount, doc("Routed experts that one token passes (top k).")]
    layers: Annotated[SmallCount, doc("Layers with experts; the others have a dense MLP.")]
    intermediate_size: Annotated[Count, doc("Inner width of one routed expert, in elements.")]
    shared: Annotated[SharedExperts | None, doc("Experts that every token passes.")] = None


class Draft(Spec, frozen=True, kw_only=True):
    """Multi-token-prediction layers that come with the checkpoint."""

    rules: ClassVar[tuple[Rule, ...]] = DRAFT_RULES

    depths: Annotated[
        Depths,
        doc("Prediction layers, one per drafted token (num_nextn_predict_layers in config.json)."),
    ]
    attention_group: Annotated[
        GroupName, doc("Attention group whose KV shape each prediction layer has.")
    ]
    attention_groups: Annotated[
        Annotated[tuple[GroupName, ...], Meta(min_length=1, max_length=32), ATOMIC] | None,
        doc(
            "Attention group of each prediction layer, in order, where they differ. Default:"
            " attentionGroup for all."
        ),
    ] = None
    conv_group: Annotated[
        GroupName | None,
        doc("Conv group whose shape each prediction layer has too, if it has a convolution."),
    ] = None
    bytes: Annotated[
        ByteCount | None,
        doc(
            "Weights of all prediction layers, in bytes. Default: a decoder layer with the dense"
            " MLP and a projection of twice the hidden size each, in bfloat16."
        ),
    ] = None

    def group_of(self, depth: int) -> str:
        """Attention group of one prediction layer; depths count from 0."""
        return self.attention_groups[depth] if self.attention_groups else self.attention_group


class Tower(Spec, frozen=True, kw_only=True):
    """The encoder of one kind of input beside text; every tensor-parallel rank holds it."""

    rules: ClassVar[tuple[Rule, ...]] = TOWER_RULES

    modality: Annotated[Modality, doc("What it encodes: Image or Audio.")]
    bytes: Annotated[ByteCount, doc("Size of its weights in memory, in bytes.")]


_BOUND: Final = "(>=|<=|==|>|<)[0-9]+([.][0-9]+){0,3}"
VersionRange = Annotated[
    str,
    text(
        64,
        matches(
            f"^{_BOUND}(,{_BOUND})*$",
            "write bounds such as >=5.18 or >=5.10,<5.17, without blanks",
        ),
    ),
]


class Checkpoint(Spec, frozen=True, kw_only=True):
    """One published set of weights."""

    rules: ClassVar[tuple[Rule, ...]] = CHECKPOINT_RULES

    name: Annotated[CheckpointName, doc("Number format of the weights.")]
    bytes: Annotated[ByteCount, doc("Size of the weights in memory, in bytes.")]
    replicated_bytes: Annotated[
        BytesOrNone,
        doc("Part of `bytes` that every tensor-parallel rank holds in full, in bytes."),
    ] = 0
    expert_bytes: Annotated[
        BytesOrNone,
        doc("Part of `bytes` in routed experts, which expert parallelism divides, in bytes."),
    ] = 0
    quantized: Annotated[
        Annotated[tuple[WeightKind, ...], Meta(max_length=4), AS_SET] | None,
        doc(
            "Matrices that are in this number format; the others are in bfloat16, as are embedding"
            " and output head always. Default: all of them."
        ),
    ] = None
    repository: Annotated[Text | None, doc("Where the weights are published, as a URI.")] = None
    config_repository: Annotated[
        Text | None,
        doc(
            "Where config.json and the tokenizer are published, as a URI; downloaded with the"
            " weights of `repository` where that has none. Default: `repository`."
        ),
    ] = None
    transformers: Annotated[
        VersionRange | None,
        doc(
            "Releases of the Python package transformers that the files need, such as >=5.18 or"
            " >=5.10,<5.17. Default: every release that vLLM takes."
        ),
    ] = None
    revision: Annotated[Revision | None, doc("Commit or digest of the published weights.")] = None
