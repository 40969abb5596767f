"""What a runtime image can do: facts about one build of vLLM, per image digest."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

from msgspec import field

from kindling_operator.model.architecture import (
    AttentionKind,
    Capability,
    CapabilityStatus,
    CheckpointName,
    Device,
)
from kindling_operator.model.fields import Spec


class KernelChoice(Spec, frozen=True, kw_only=True):
    """The attention backend of one kind of KV group on one GPU family.

    The first entry of a list that matches counts; `gpu_architectures` empty matches every one.
    `rendered` tells whether vLLM takes it from ``backend_per_kind`` or has it fixed in the model.
    """

    kind: AttentionKind
    backend: str
    gpu_architectures: tuple[str, ...] = ()
    rendered: bool = True
    status: CapabilityStatus = CapabilityStatus.SUPPORTED
    source: str


class PackageNeed(Spec, frozen=True, kw_only=True):
    """An importable extra without which a model does not run; `reason` tells what happens.

    It is needed for one `checkpoint` or for all.
    """

    package: str
    checkpoint: CheckpointName | None = None
    reason: str
    source: str


class ModelOnRuntime(Spec, frozen=True, kw_only=True):
    """What one model class can do on one runtime; the first capability that matches counts.

    A capability's `feature` is None for the bare model, or one of `Feature`'s words: MTP,
    MTPWithPP, ExpertParallel, DataParallel, LoRA, HostTier, Disaggregation, SplitKV.
    """

    architecture: str
    capabilities: tuple[Capability, ...] = ()
    kernels: tuple[KernelChoice, ...] = ()
    needs: tuple[PackageNeed, ...] = ()


class ModelClasses(Spec, frozen=True, kw_only=True):
    """The model classes of one vLLM (`architectures` in config.json), by what they do.

    `generates` text in vLLM's own code, `through_transformers` in Transformers' code, which vLLM
    wraps; `transcribes` speech alone, `pools` vectors, scores or labels, `drafts` for another
    model.
    Names that differ in their `endings` alone are one class to vLLM where it has no other.
    """

    generates: frozenset[str]
    through_transformers: frozenset[str] = frozenset()
    transcribes: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    drafts: frozenset[str] = frozenset()
    endings: tuple[str, ...] = ()


class OptionValue(StrEnum):
    """Whether a value follows an option of the command line."""

    REQUIRED = "Required"
    OPTIONAL = "Optional"
    NONE = "None"


class EngineOption(Spec, frozen=True, kw_only=True):
    """One option of `vllm serve`: `also` are its other spellings, short and negated ones too."""

    also: tuple[str, ...] = ()
    value: OptionValue = OptionValue.REQUIRED


class EngineFacts(Spec, frozen=True, kw_only=True, dict=True):
    """What one vLLM knows, whatever the image; images/describe_vllm.py asks it.

    `options` are those of `vllm serve` by their first long spelling (``--name``).
    """

    classes: ModelClasses
    options: dict[str, EngineOption]
    sources: dict[str, str]

    @cached_property
    def spellings(self) -> dict[str, str]:
        """The option's own name by each of its spellings."""
        return {
            spelling: name
            for name, option in self.options.items()
            for spelling in (name, *option.also)
        }


class RuntimeFacts(Spec, frozen=True, kw_only=True):
    """One runtime image.

    `digests` are the image digests that these facts were recorded for (``sha256:...``), empty for
    the release's own build. `cpu_architectures` is what the image was built for, `in_flight` how
    many batches may be under way when a window moves on (KV formula), `block_tokens` the engine's
    own KV block, `driver` the oldest NVIDIA driver (major.minor), `cuda` the toolkit,
    `torch` the release that vLLM is built against ("": not known), `transformers` the range that it
    accepts. `packages` are the importable extras that some plans
    need (gguf, flashinfer-cubin, nvidia-cutlass-dsl-libs-core, pydantic-extra-types).
    `split_kv` tells whether the image's plugin lets FA4 split long contexts on Hopper (trap T33).
    `removed` are model classes that vLLM no longer has, with the last version that had each.
    `engine` is None where nobody has told what this vLLM knows.
    """

    name: str
    device: Device
    vllm: str
    digests: tuple[str, ...] = ()
    cpu_architectures: tuple[str, ...]
    in_flight: int
    block_tokens: int
    batched_tokens: int
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    transformers: str = ""
    packages: tuple[str, ...] = ()
    split_kv: bool = False
    removed: dict[str, str] = field(default_factory=dict)
    models: tuple[ModelOnRuntime, ...] = ()
    engine: EngineFacts | None = None
    sources: dict[str, str]

    def on(self, architecture: str) -> ModelOnRuntime | None:
        """What is recorded of a model class (`architectures` in config.json), or None."""
        return next((each for each in self.models if each.architecture == architecture), None)
