"""What a model is made of: the schema of a catalog entry and of ``spec.model.custom``.

An architecture is enough to compute memory: which layers keep which KV cache, how the weights
divide over GPUs, and how many bytes each checkpoint has. What only Kindling's authors can know
(parsers, required flags, which GPU runs it, where a number comes from) is in `CatalogEntry`.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

MAX_INT32: Final = 2**31 - 1
MAX_EXACT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""

Count = Annotated[int, Meta(ge=1, le=MAX_INT32)]
SmallCount = Annotated[int, Meta(ge=1, le=4096)]
ByteCount = Annotated[int, Meta(ge=1, le=MAX_EXACT)]
Name = Annotated[str, Meta(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$")]


class AttentionKind(StrEnum):
    """How the layers of a group keep their KV cache."""

    FULL = "Full"
    """One entry per token of the context."""
    SLIDING = "Sliding"
    """The last `window` tokens only."""
    CONV = "Conv"
    """The last `window` inputs of a short convolution, kept in the KV cache beside the layer's
    own attention (Inkling)."""


class CheckpointName(StrEnum):
    """A published number format of a model's weights."""

    BF16 = "BF16"
    NVFP4 = "NVFP4"


class Device(StrEnum):
    """What kind of processor a model can run on."""

    CPU = "CPU"
    GPU = "GPU"


class Modality(StrEnum):
    """What a request may contain."""

    TEXT = "Text"
    IMAGE = "Image"
    AUDIO = "Audio"


class AttentionGroup(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """Layers that keep the same kind and shape of KV cache.

    One token of one layer takes ``kvHeads x (headSize + headSizeValue)`` elements.
    """

    name: Annotated[Name, Meta(description="Name of the group, used in status and in messages.")]
    kind: Annotated[
        AttentionKind,
        Meta(
            description="Full keeps every token, Sliding the last `window` tokens, Conv the last"
            " `window` inputs of a short convolution."
        ),
    ]
    layers: Annotated[
        SmallCount,
        Meta(
            description="Number of layers in this group. The Full and Sliding groups together are"
            " all layers of the model; a layer with a short convolution is also counted in a"
            " Conv group."
        ),
    ]
    kv_heads: Annotated[
        SmallCount,
        Meta(description="Key/value heads per layer (num_key_value_heads of config.json)."),
    ]
    head_size: Annotated[
        Annotated[int, Meta(ge=1, le=65536)],
        Meta(description="Elements of one key head (head_dim of config.json)."),
    ]
    head_size_value: (
        Annotated[
            Annotated[int, Meta(ge=0, le=65536)],
            Meta(
                description="Elements of one value head; headSize if not given, 0 where no values"
                " are kept (latent attention, convolutions)."
            ),
        ]
        | None
    ) = None
    window: (
        Annotated[
            Count,
            Meta(
                description="Tokens that the group looks back (sliding_window of config.json, kernel"
                " width of a convolution). Required for Sliding and Conv, forbidden for Full."
            ),
        ]
        | None
    ) = None
    block_tokens: (
        Annotated[
            Annotated[int, Meta(ge=1, le=1024)],
            Meta(
                description="Tokens per KV block if this model's kernels fix it; vLLM's own block"
                " size otherwise."
            ),
        ]
        | None
    ) = None


class SharedExperts(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """Experts that every token passes."""

    count: Annotated[SmallCount, Meta(description="Number of shared experts per layer.")]
    intermediate_size: Annotated[
        Count, Meta(description="Inner width of one shared expert, in elements.")
    ]


class Experts(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """The mixture of experts: which part of the weights a token reads."""

    count: Annotated[SmallCount, Meta(description="Routed experts per layer.")]
    per_token: Annotated[
        SmallCount, Meta(description="Routed experts that one token passes (top k).")
    ]
    layers: Annotated[
        SmallCount, Meta(description="Layers that have experts; the others have a dense MLP.")
    ]
    intermediate_size: Annotated[
        Count, Meta(description="Inner width of one routed expert, in elements.")
    ]
    shared: (
        Annotated[SharedExperts, Meta(description="Experts that every token passes.")] | None
    ) = None


class Draft(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """Multi-token-prediction layers that come with the checkpoint."""

    depths: Annotated[
        Annotated[int, Meta(ge=1, le=32)],
        Meta(
            description="Prediction layers, one per drafted token (num_nextn_predict_layers of"
            " config.json)."
        ),
    ]
    attention_group: Annotated[
        Name,
        Meta(description="Name of the attention group whose KV shape each prediction layer has."),
    ]
    conv_group: (
        Annotated[
            Name,
            Meta(
                description="Name of the Conv group that each prediction layer also belongs to, if"
                " it has a short convolution."
            ),
        ]
        | None
    ) = None


class Checkpoint(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """One published set of weights."""

    name: Annotated[CheckpointName, Meta(description="Number format of the weights.")]
    bytes: Annotated[
        ByteCount,
        Meta(description="Size of all weight files in bytes, as they are held in memory."),
    ]
    replicated_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_EXACT)],
        Meta(
            description="Bytes of `bytes` that every tensor-parallel rank holds in full (an"
            " embedding that is not divided)."
        ),
    ] = 0
    expert_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_EXACT)],
        Meta(description="Bytes of `bytes` in routed experts, which expert parallelism divides."),
    ] = 0
    repository: (
        Annotated[
            Annotated[str, Meta(min_length=1, max_length=512)],
            Meta(description="Where the weights are published, as a weights URI."),
        ]
        | None
    ) = None
    revision: (
        Annotated[
            Annotated[str, Meta(min_length=1, max_length=128)],
            Meta(description="Commit or digest of the published weights."),
        ]
        | None
    ) = None


class Architecture(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """A decoder that vLLM serves, described far enough to compute its memory."""

    architecture: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128, pattern="^[A-Za-z_][A-Za-z0-9_]*$")],
        Meta(
            description="Model class in `architectures` of config.json, for example"
            " Qwen3ForCausalLM."
        ),
    ]
    hidden_size: Annotated[
        Count, Meta(description="Width of the residual stream, in elements (hidden_size).")
    ]
    vocabulary_size: Annotated[
        Count, Meta(description="Number of token ids, padding included (vocab_size).")
    ]
    attention_heads: Annotated[
        SmallCount, Meta(description="Query heads per layer (num_attention_heads).")
    ]
    layers: Annotated[SmallCount, Meta(description="Decoder layers in all (num_hidden_layers).")]
    intermediate_size: (
        Annotated[
            Count,
            Meta(description="Inner width of the dense MLP, in elements; not given if none."),
        ]
        | None
    ) = None
    attention: Annotated[
        Annotated[tuple[AttentionGroup, ...], Meta(min_length=1, max_length=16)],
        Meta(
            description="The layers by kind and shape of their KV cache.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    experts: (
        Annotated[Experts, Meta(description="The mixture of experts; not given for dense models.")]
        | None
    ) = None
    draft: (
        Annotated[
            Draft,
            Meta(description="Multi-token-prediction layers; not given if there are none."),
        ]
        | None
    ) = None
    context_length: Annotated[
        Count,
        Meta(
            description="Longest context that the model was made for, in tokens"
            " (max_position_embeddings)."
        ),
    ]
    checkpoints: Annotated[
        Annotated[tuple[Checkpoint, ...], Meta(min_length=1, max_length=2)],
        Meta(
            description="The sets of weights that exist.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    devices: Annotated[
        Annotated[tuple[Device, ...], Meta(min_length=1, max_length=2)],
        Meta(
            description="Processors that can run it. CPU is for tiny models: tests and laptops.",
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = (Device.GPU,)
    tensor_parallel_sizes: (
        Annotated[
            Annotated[
                tuple[Annotated[int, Meta(ge=1, le=64)], ...], Meta(min_length=1, max_length=16)
            ],
            Meta(
                description="Tensor-parallel sizes that the model's kernels accept; every divisor"
                " of attentionHeads if not given.",
                extra_json_schema={"x-kubernetes-list-type": "set"},
            ),
        ]
        | None
    ) = None
    modalities: Annotated[
        Annotated[tuple[Modality, ...], Meta(min_length=1, max_length=3)],
        Meta(
            description="What a request may contain.",
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = (Modality.TEXT,)


class CapabilityStatus(StrEnum):
    """How far a combination of model, checkpoint, GPU family and feature can be trusted."""

    SUPPORTED = "Supported"
    UNVERIFIED = "Unverified"
    BROKEN = "Broken"


class Capability(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """The status of one combination; the first entry that matches counts."""

    status: CapabilityStatus
    gpu_architecture: str | None = None
    """Compute capability such as ``sm90``; any if None."""
    checkpoint: CheckpointName | None = None
    """Any checkpoint if None."""
    feature: str | None = None
    """The bare model if None."""
    reason: str
    """One sentence for the user: what works or breaks, and where."""
    source: str


class ForbiddenArgument(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A vLLM argument that breaks this model."""

    argument: str
    """The option without its value, such as ``--block-size``."""
    reason: str
    source: str


class Parsers(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """Names of vLLM's parsers for this model's output."""

    reasoning: str | None = None
    tool_call: str | None = None


class CatalogEntry(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """A model that Kindling knows: its architecture and the facts that no user has to type."""

    name: Name
    title: str
    """How people write the model's name."""
    architecture: Architecture
    parsers: Parsers = Parsers()
    required_arguments: tuple[str, ...] = ()
    """vLLM arguments that every replica gets, each with its value (``--name=value``)."""
    required_environment: dict[str, str] = {}
    """Environment variables that every replica gets."""
    forbidden_arguments: tuple[ForbiddenArgument, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    sources: dict[str, str]
    """For each number above, by its path (``architecture.hiddenSize``): where it comes from."""
