"""``spec.serving`` and ``spec.endpoint``: what a replica can do and how it is reached."""

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta

from kindling_operator.model.api_model import WeightsUri
from kindling_operator.model.architecture import Modality
from kindling_operator.model.fields import (
    AS_SET,
    ATOMIC,
    BY_NAME,
    ObjectRef,
    Rule,
    Spec,
    doc,
    matches,
    text,
)


class SpeculationMode(StrEnum):
    """Who decides how many tokens are drafted ahead."""

    AUTO = "Auto"
    DISABLED = "Disabled"
    FIXED = "Fixed"


class Frontend(StrEnum):
    """vLLM's HTTP server."""

    PYTHON = "Python"
    RUST = "Rust"


class Gateway(StrEnum):
    """What stands between the Service and the replicas."""

    ROUTER = "Router"
    INFERENCE_POOL = "InferencePool"


Tokens = Annotated[int, Meta(ge=16, le=16_777_216)]
Concurrency = Annotated[int, Meta(ge=1, le=4096)]
DraftTokens = Annotated[int, Meta(ge=1, le=32)]
OneOrMore = Annotated[int, Meta(ge=1, le=1000)]
Port = Annotated[int, Meta(ge=1, le=65535)]
MediaDomain = Annotated[
    str,
    text(
        253,
        matches(
            "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
            "write a bare host name without scheme, port or path, such as assets.example.com",
        ),
    ),
]
ExtraArgument = Annotated[
    str,
    text(
        1024,
        matches(
            r"^--[a-z0-9][a-zA-Z0-9._-]*(=[^\x00-\x08\x0b-\x1f\x7f]*)?$",
            "write each vLLM argument as one item, --name or --name=value, without control"
            " characters",
        ),
    ),
]
ServedName = Annotated[
    str,
    text(
        128,
        matches(
            "^[A-Za-z0-9][-A-Za-z0-9._/:]*$",
            "use letters, digits and -._/: only, and start with a letter or digit",
        ),
    ),
]


class Speculation(Spec, frozen=True, kw_only=True):
    """How many tokens are drafted ahead by the model's prediction layers."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.mode) || self.mode != 'Fixed' || has(self.tokens)",
            message="`mode: Fixed` needs `tokens`, the number of drafted tokens",
            holds=lambda s: s.mode is not SpeculationMode.FIXED or s.tokens is not None,
        ),
        Rule(
            cel="self.mode == 'Fixed' || !has(self.tokens)",
            message="`tokens: %d` is for `mode: Fixed` and the mode is %s: remove it, or set"
            " `mode: Fixed`",
            holds=lambda s: s.mode is SpeculationMode.FIXED or s.tokens is None,
            values=(("self.tokens", lambda s: s.tokens), ("self.mode", lambda s: s.mode)),
        ),
    )

    mode: Annotated[
        SpeculationMode,
        doc(
            "Auto takes the depth with the most tokens per second in the speed model and none"
            " where a rule forbids it; Disabled none; Fixed `tokens`."
        ),
    ] = SpeculationMode.AUTO
    tokens: Annotated[DraftTokens | None, doc("Tokens drafted per step. Only with Fixed.")] = None


class Adapter(Spec, frozen=True, kw_only=True):
    """A LoRA adapter."""

    name: Annotated[ServedName, doc("Model name under which requests select the adapter.")]
    uri: Annotated[
        WeightsUri, doc("Source of the adapter: a folder of the weights' claim or of the image.")
    ]


class Disaggregation(Spec, frozen=True, kw_only=True):
    """Separate replicas for prompts and for generation."""

    prefill_replicas: Annotated[OneOrMore, doc("Replicas that compute prompts.")]
    decode_replicas: Annotated[OneOrMore, doc("Replicas that generate tokens.")]


class Serving(Spec, frozen=True, kw_only=True):
    """What a replica can do."""

    served_name: Annotated[
        ServedName | None,
        doc("Model name in requests. Default: the name of the InferenceModel."),
    ] = None
    context_length: Annotated[
        Tokens | None,
        doc(
            "Longest request, prompt and answer together, in tokens. Default: the fewest GPUs that"
            " hold 131072 (or the model's maximum, if less) at `concurrency`, then the longest"
            " that fits there."
        ),
    ] = None
    concurrency: Annotated[
        Concurrency, doc("Requests of full context that one replica holds at the same time.")
    ] = 1
    speculation: Annotated[Speculation, doc("Drafting by the model's prediction layers.")] = (
        Speculation()
    )
    modalities: Annotated[
        Annotated[tuple[Modality, ...], Meta(min_length=1, max_length=3), AS_SET] | None,
        doc("What a request may contain. Default: all that the checkpoint has."),
    ] = None
    media_domains: Annotated[
        tuple[MediaDomain, ...],
        Meta(max_length=64),
        AS_SET,
        doc("Hosts from which media of a request may be fetched. Default: nothing is fetched."),
    ] = ()
    adapters: Annotated[
        tuple[Adapter, ...], Meta(max_length=32), BY_NAME, doc("LoRA adapters. Inkling only.")
    ] = ()
    frontend: Annotated[
        Frontend,
        doc(
            "vLLM's HTTP server. Rust has fewer options and no front: all of vLLM's routes are open"
            " on port 8000 to whoever the network lets in; docs/install.md says how to narrow it."
        ),
    ] = Frontend.PYTHON
    disaggregation: Annotated[
        Disaggregation | None,
        doc("Separate replicas for prompts and for generation. Default: one kind does both."),
    ] = None
    extra_args: Annotated[
        tuple[ExtraArgument, ...],
        Meta(max_length=64),
        ATOMIC,
        doc(
            "Further vLLM arguments, --name or --name=value, as a last resort. One that the plan"
            " owns, that is known to break the model or that vLLM does not have is refused by name."
        ),
    ] = ()


class Endpoint(Spec, frozen=True, kw_only=True):
    """The OpenAI endpoint inside the cluster."""

    port: Annotated[Port, doc("Port of the Service.")] = 8000
    gateway: Annotated[
        Gateway,
        doc(
            "Router: the model's own Service leads to the replicas; InferencePool: the Gateway API"
            " Inference Extension of the cluster does."
        ),
    ] = Gateway.ROUTER
    api_keys_secret_ref: Annotated[
        ObjectRef | None,
        doc("Secret whose values are the accepted API keys. Default: no key is asked for."),
    ] = None
