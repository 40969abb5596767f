"""What a model is made of: the schema of a catalog entry and of ``spec.model.custom``.

An architecture is enough to compute memory: which layers keep which KV cache, how the weights
divide over GPUs, and how many bytes each checkpoint has. What only Kindling's authors can know
(parsers, required flags, which GPU runs it, where a number comes from) is in `CatalogEntry`.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from kindling_operator.model.architecture_parts import (
    Checkpoint,
    CheckpointName,
    Draft,
    Experts,
    Modality,
    SharedExperts,
    Tower,
    WeightKind,
)
from kindling_operator.model.architecture_rules import ARCHITECTURE_RULES, GROUP_RULES
from kindling_operator.model.fields import (
    AS_SET,
    BY_MODALITY,
    BY_NAME,
    Count,
    GroupName,
    Rule,
    SmallCount,
    Spec,
    doc,
    matches,
    text,
)

__all__ = [
    "Architecture",
    "AttentionGroup",
    "AttentionKind",
    "Capability",
    "CapabilityStatus",
    "CatalogEntry",
    "Checkpoint",
    "CheckpointName",
    "Device",
    "Draft",
    "Experts",
    "ForbiddenArgument",
    "Modality",
    "Parsers",
    "SharedExperts",
    "Tower",
    "WeightKind",
]


class AttentionKind(StrEnum):
    """How the layers of a group keep their KV cache."""

    FULL = "Full"
    """One entry per token of the context."""
    SLIDING = "Sliding"
    """The last `window` tokens only."""
    CONV = "Conv"
    """The last `window` inputs of a short convolution, in the KV cache beside the attention."""


class Device(StrEnum):
    """What kind of processor a model can run on."""

    CPU = "CPU"
    GPU = "GPU"


ClassName = Annotated[
    str,
    text(
        128,
        matches(
            "^[A-Za-z_][A-Za-z0-9_]*$",
            "copy one class name from `architectures` in config.json, such as Qwen3ForCausalLM",
        ),
    ),
]
HeadSize = Annotated[int, Meta(ge=1, le=65536)]
HeadSizeOrNone = Annotated[int, Meta(ge=0, le=65536)]
BlockTokens = Annotated[int, Meta(ge=1, le=1024)]
TensorParallel = Annotated[int, Meta(ge=1, le=64)]
LayerIndex = Annotated[int, Meta(ge=0, le=4095)]


class AttentionGroup(Spec, frozen=True, kw_only=True):
    """Layers that keep the same kind and shape of KV cache.

    One token of one layer takes kvHeads x (headSize + headSizeValue) elements.
    """

    rules: ClassVar[tuple[Rule, ...]] = GROUP_RULES

    name: Annotated[GroupName, doc("Name of the group, used in status and in messages.")]
    kind: Annotated[
        AttentionKind,
        doc(
            "Full keeps every token, Sliding the last `window` tokens, Conv the last `window`"
            " inputs of a short convolution."
        ),
    ]
    layers: Annotated[
        SmallCount,
        doc(
            "Layers in this group. The Full and Sliding groups together are all layers of the"
            " model; a layer with a short convolution is counted in a Conv group as well."
        ),
    ]
    kv_heads: Annotated[
        SmallCount, doc("Key/value heads per layer (num_key_value_heads in config.json).")
    ]
    head_size: Annotated[HeadSize, doc("Elements of one key head (head_dim in config.json).")]
    head_size_value: Annotated[
        HeadSizeOrNone | None,
        doc(
            "Elements of one value head. Default: headSize; 0 where no values are kept (latent"
            " attention, convolutions)."
        ),
    ] = None
    window: Annotated[
        Count | None,
        doc(
            "Tokens that a layer looks back (sliding_window in config.json, or the width of the"
            " convolution). Required for Sliding and Conv."
        ),
    ] = None
    block_tokens: Annotated[
        BlockTokens | None,
        doc("Tokens per KV block where the model's kernels fix it. Default: the engine's own."),
    ] = None
    head_size_position: Annotated[
        HeadSizeOrNone,
        doc(
            "Elements that a layer projects per query head beside query, key and value, for"
            " positions that are learned (d_rel in config.json)."
        ),
    ] = 0
    positions: Annotated[
        Annotated[tuple[LayerIndex, ...], Meta(min_length=1, max_length=512), AS_SET] | None,
        doc(
            "Indices of these layers in the model, from 0 (layer_types in config.json); the group"
            " without them has the others. Default: spread evenly. Pipeline parallelism depends on"
            " it."
        ),
    ] = None


class Architecture(Spec, frozen=True, kw_only=True):
    """A decoder that vLLM serves, described far enough to compute its memory."""

    rules: ClassVar[tuple[Rule, ...]] = ARCHITECTURE_RULES

    architecture: Annotated[
        ClassName, doc("Model class in `architectures` of config.json, such as Qwen3ForCausalLM.")
    ]
    hidden_size: Annotated[Count, doc("Width of the residual stream, in elements (hidden_size).")]
    vocabulary_size: Annotated[Count, doc("Token ids, padding included (vocab_size).")]
    attention_heads: Annotated[SmallCount, doc("Query heads per layer (num_attention_heads).")]
    layers: Annotated[SmallCount, doc("Decoder layers in all (num_hidden_layers).")]
    intermediate_size: Annotated[
        Count | None, doc("Inner width of the dense MLP, in elements (intermediate_size).")
    ] = None
    attention: Annotated[
        tuple[AttentionGroup, ...],
        Meta(min_length=1, max_length=16),
        BY_NAME,
        doc("The layers, grouped by kind and shape of their KV cache."),
    ]
    experts: Annotated[Experts | None, doc("The mixture of experts; none in a dense model.")] = None
    draft: Annotated[
        Draft | None, doc("Multi-token-prediction layers, if the checkpoint has them.")
    ] = None
    context_length: Annotated[
        Count, doc("Longest context the model was made for, in tokens (max_position_embeddings).")
    ]
    towers: Annotated[
        tuple[Tower, ...],
        Meta(max_length=2),
        BY_MODALITY,
        doc("Encoders of the inputs beside text; part of every checkpoint's `bytes`."),
    ] = ()
    tied_embedding: Annotated[
        bool,
        doc("The output head is the embedding (tie_word_embeddings in config.json)."),
    ] = False
    replicated_embedding: Annotated[
        bool,
        doc("Every tensor-parallel rank holds the whole embedding instead of a part of it."),
    ] = False
    checkpoints: Annotated[
        tuple[Checkpoint, ...],
        Meta(min_length=1, max_length=2),
        BY_NAME,
        doc("The published sets of weights."),
    ]
    devices: Annotated[
        tuple[Device, ...],
        Meta(min_length=1, max_length=2),
        AS_SET,
        doc("Processors that can run it. CPU is for tiny models: tests and laptops."),
    ] = (Device.GPU,)
    tensor_parallel_sizes: Annotated[
        Annotated[tuple[TensorParallel, ...], Meta(min_length=1, max_length=16), AS_SET] | None,
        doc(
            "Tensor-parallel sizes that the model's kernels accept. Default: the divisors of"
            " attentionHeads."
        ),
    ] = None
    modalities: Annotated[
        tuple[Modality, ...],
        Meta(min_length=1, max_length=3),
        AS_SET,
        doc("What a request may contain."),
    ] = (Modality.TEXT,)

    @property
    def attending(self) -> tuple[AttentionGroup, ...]:
        """The groups that attend; convolutions run beside them in the same layers."""
        return tuple(g for g in self.attention if g.kind is not AttentionKind.CONV)

    @property
    def attending_layers(self) -> int:
        """Layers of the groups that attend; all layers of the model if valid."""
        return sum(g.layers for g in self.attending)

    @property
    def indivisible(self) -> tuple[AttentionGroup, ...]:
        """Attending groups over whose KV heads the query heads do not divide; none if valid."""
        return tuple(g for g in self.attending if self.attention_heads % g.kv_heads)

    @property
    def strange_draft_groups(self) -> tuple[str, ...]:
        """Groups that `draft.attentionGroups` names and that do not attend; none if valid."""
        known = {g.name for g in self.attending}
        named = (self.draft.attention_groups or ()) if self.draft is not None else ()
        return tuple(name for name in named if name not in known)

    def checkpoint(self, name: CheckpointName) -> Checkpoint | None:
        """The checkpoint of that name, or None."""
        return next((c for c in self.checkpoints if c.name is name), None)


class CapabilityStatus(StrEnum):
    """How far a combination of model, checkpoint, GPU family and feature can be trusted."""

    SUPPORTED = "Supported"
    UNVERIFIED = "Unverified"
    BROKEN = "Broken"


class Capability(Spec, frozen=True, kw_only=True):
    """The status of one combination; the first entry of the list that matches counts.

    A field that is None matches everything, `feature` None is the bare model.
    `gpu_architecture` is a compute capability such as ``sm90``; `reason` one sentence for the
    user: what works or breaks, and where.
    """

    status: CapabilityStatus
    gpu_architecture: str | None = None
    checkpoint: CheckpointName | None = None
    feature: str | None = None
    reason: str
    source: str


class ForbiddenArgument(Spec, frozen=True, kw_only=True):
    """A vLLM option that breaks this model, without its value, such as ``--block-size``."""

    argument: str
    reason: str
    source: str


class Parsers(Spec, frozen=True, kw_only=True):
    """Names of vLLM's parsers for this model's output."""

    reasoning: str | None = None
    tool_call: str | None = None


class CatalogEntry(Spec, frozen=True, kw_only=True):
    """A model that Kindling knows: its architecture and the facts that no user has to type.

    What a runtime image can do with it is said by the image (model/runtime.py).
    `required_arguments` are vLLM options with their values (``--name=value``), and
    `checkpoint_arguments` those of one checkpoint, in which ``{weights}`` stands for the weights
    folder. `sources` tells for each number, by its path (``architecture.hiddenSize``), where it
    comes from.
    """

    name: str
    title: str
    architecture: Architecture
    parsers: Parsers = Parsers()
    required_arguments: tuple[str, ...] = ()
    checkpoint_arguments: dict[CheckpointName, tuple[str, ...]] = field(default_factory=dict)
    required_environment: dict[str, str] = field(default_factory=dict)
    forbidden_arguments: tuple[ForbiddenArgument, ...] = ()
    sources: dict[str, str]
