"""Candidates that a rule refuses, each with its sentence."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import structs
from tests.support.builders import catalog_spec, environment, parsed, tiny_architecture, tiny_spec

from kindling_operator.catalog import runtimes
from kindling_operator.model.architecture import CapabilityStatus, CheckpointName
from kindling_operator.model.conditions import Reason
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.objects import GpuShare
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.snapshot import Environment
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.capabilities import Feature
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.subject import subject_of

H200: Final = GpuClass("NVIDIA-H200", "sm90", 143_771 << 20, "amd64", driver=580)
B200: Final = GpuClass("NVIDIA-B200", "sm100", 183_359 << 20, "amd64", driver=580)
GB200: Final = replace(B200, product="NVIDIA-GB200", architecture="arm64")
RTX: Final = GpuClass("NVIDIA-RTX-PRO-6000", "sm120", 97_887 << 20, "amd64", driver=580)
CUDA: Final = runtimes.load("cuda")
DIGEST: Final = f"sha256:{1:064x}"


OWN: Final = {
    "dense": tiny_architecture(devices=["GPU"]),
    "odd": tiny_architecture(devices=["GPU"], intermediateSize=511, tensorParallelSizes=[2, 4]),
    "older": tiny_architecture(
        devices=["GPU"],
        checkpoints=[{"name": "BF16", "bytes": 5_781_504, "transformers": ">=5.2,<5.10"}],
    ),
    "moe": tiny_architecture(
        devices=["GPU"],
        experts={"count": 8, "perToken": 2, "layers": 4, "intermediateSize": 65},
    ),
    "conv": tiny_architecture(
        devices=["GPU"],
        attention=[
            {"name": "full", "kind": "Full", "layers": 4, "kvHeads": 2, "headSize": 64},
            {
                "name": "conv",
                "kind": "Conv",
                "layers": 4,
                "kvHeads": 2,
                "headSize": 256,
                "headSizeValue": 0,
                "window": 4,
                "blockTokens": 4,
            },
        ],
    ),
}
"""Architectures of a user's own."""


def with_facts(**changes: Any) -> Environment:
    """An installation whose CUDA image has other facts."""
    facts = structs.replace(CUDA, **changes)
    return environment(runtimes={"cuda": facts, "cpu": runtimes.load("cpu")})


def without_package(name: str) -> Environment:
    return with_facts(packages=tuple(p for p in CUDA.packages if p != name))


def judged(architecture: str, feature: Feature, status: CapabilityStatus) -> Environment:
    """An installation where a feature of a model has another status."""
    models = tuple(
        structs.replace(
            model,
            capabilities=tuple(
                structs.replace(c, status=status) if c.feature == feature else c
                for c in model.capabilities
            ),
        )
        if model.architecture == architecture
        else model
        for model in CUDA.models
    )
    return with_facts(models=models)


@dataclass(frozen=True)
class Case:
    """A candidate, the rule that refuses it, and its sentence."""

    rule: str
    model: str
    reason: Reason
    message: str
    gpu: GpuClass = H200
    layout: Layout = ONE_GPU
    draft: int = 0
    checkpoint: CheckpointName = CheckpointName.BF16
    spec: dict[str, Any] = field(default_factory=dict)
    installed: Environment = field(default_factory=environment)

    @property
    def candidate(self) -> Candidate:
        return candidate(
            self.model,
            gpu=self.gpu,
            layout=self.layout,
            draft=self.draft,
            checkpoint=self.checkpoint,
            installed=self.installed,
            **self.spec,
        )


def candidate(
    name: str,
    *,
    gpu: GpuClass = H200,
    layout: Layout = ONE_GPU,
    draft: int = 0,
    checkpoint: CheckpointName = CheckpointName.BF16,
    installed: Environment | None = None,
    **spec: Any,
) -> Candidate:
    whole = tiny_spec(OWN[name], **spec) if name in OWN else catalog_spec(name, **spec)
    found = parsed(whole)
    assert isinstance(found, ParsedModel), found
    subject = subject_of(found, installed or environment())
    assert subject is not None
    chosen = subject.architecture.checkpoint(checkpoint)
    assert chosen is not None
    return Candidate(subject, chosen, gpu, layout, draft)


def pins(**sizes: Any) -> dict[str, Any]:
    return {"placement": {"parallelism": sizes}}


UNSUPPORTED: Final = Reason.UNSUPPORTED_PARALLELISM
BROKEN: Final = Reason.BROKEN_COMBINATION
NO_GPU: Final = Reason.NO_SUPPORTED_GPU

HARDWARE: Final = (
    Case(
        "image_is_not_built_for_the_cpu",
        "flint",
        NO_GPU,
        "The nodes with NVIDIA-GB200 are arm64 and the runtime image is built for amd64: use other"
        " nodes or an image for arm64.",
        gpu=GB200,
        installed=with_facts(cpu_architectures=("amd64",)),
    ),
    Case(
        "driver_is_too_old",
        "flint",
        NO_GPU,
        "The nodes with NVIDIA-H200 have NVIDIA driver 570 and the runtime image's CUDA 13.0 needs"
        " 580.65 or later: upgrade the driver of these nodes.",
        gpu=replace(H200, driver=570),
    ),
    Case(
        "combination_is_broken",
        "inkling",
        BROKEN,
        "Inkling BF16 on NVIDIA-RTX-PRO-6000 (sm120) is known to fail, its attention kernel has no"
        " paged KV cache on this GPU: use GPUs of sm90, sm100, sm103 or sm110.",
        gpu=RTX,
    ),
    Case(
        "combination_is_unverified",
        "inkling",
        NO_GPU,
        "Inkling NVFP4 on NVIDIA-H200 (sm90) is unverified, the code runs NVFP4 experts on Hopper"
        " through Marlin, the public recipe says they need Blackwell: pin spec.model.checkpoint"
        " NVFP4 to take it nevertheless.",
        checkpoint=CheckpointName.NVFP4,
    ),
    Case(
        "combination_is_unverified",
        "flint",
        NO_GPU,
        "Flint BF16 on NVIDIA-RTX-PRO-6000 (sm120) is unverified, vLLM selects FlashInfer here, but"
        " whether its sink kernels exist is untested: pin spec.placement.gpu.products"
        " NVIDIA-RTX-PRO-6000 to take it nevertheless.",
        gpu=RTX,
    ),
    Case(
        "image_lacks_a_package",
        "flint",
        BROKEN,
        "The runtime image cuda (vLLM 0.33.0) has no gguf, which reads the checkpoint's one GGUF"
        " file: add it to the image, or use the release's own.",
        checkpoint=CheckpointName.NVFP4,
        installed=without_package("gguf"),
    ),
    Case(
        "checkpoint_needs_another_transformers",
        "older",
        BROKEN,
        "custom BF16 needs transformers >=5.2,<5.10 and the runtime image cuda (vLLM 0.33.0) has"
        " >=5.16.1,<5.21: describe an image that has it under the chart's `runtimes` and name it in"
        " spec.runtime.image, or use another checkpoint.",
    ),
    Case(
        "shares_have_no_memory",
        "flint",
        NO_GPU,
        "The nodes share each NVIDIA-H200 out in time, which gives an engine no memory of its own:"
        " switch time-slicing and MPS off on them (nvidia.com/gpu.replicas 1), use MIG slices, or"
        " select other nodes with spec.placement.nodeSelector.",
        gpu=replace(H200, share=GpuShare.TIME),
    ),
    Case(
        "slices_do_not_add_up",
        "flint",
        UNSUPPORTED,
        "TP2 needs 2 GPUs that talk to each other and the nodes offer slices of NVIDIA-H200: use"
        " whole GPUs, or a model that fits one slice.",
        gpu=replace(H200, share=GpuShare.SLICE),
        layout=Layout(tensor=2),
    ),
)

LAYOUTS: Final = (
    Case(
        "tensor_is_no_size_of_the_model",
        "flint",
        UNSUPPORTED,
        "spec.placement.parallelism.tensor 3 does not divide 32 attention heads: use 1, 2, 4, 8, 16"
        " or 32, or leave it out.",
        layout=Layout(tensor=3),
        spec=pins(tensor=3),
    ),
    Case(
        "tensor_is_no_size_of_the_model",
        "inkling",
        UNSUPPORTED,
        "TP16 is not among the sizes of Inkling: use 1, 2, 4 or 8, or leave it out.",
        layout=Layout(tensor=16, nodes=2),
    ),
    Case(
        "experts_are_cut_unevenly",
        "moe",
        UNSUPPORTED,
        "TP2 does not divide the expert width 65: set spec.placement.parallelism.expert true, or"
        " use fewer GPUs per replica.",
        layout=Layout(tensor=2),
    ),
    Case(
        "stages_outnumber_layers",
        "dense",
        UNSUPPORTED,
        "PP5 exceeds the 4 layers of custom: use at most 4, or leave it out.",
        layout=Layout(pipeline=5),
    ),
    Case(
        "experts_are_spread_and_there_are_none",
        "dense",
        UNSUPPORTED,
        "spec.placement.parallelism.expert true spreads experts and custom has none: leave it out.",
        layout=Layout(tensor=2, expert=True),
        spec=pins(expert=True),
    ),
    Case(
        "expert_ranks_outnumber_experts",
        "flint",
        UNSUPPORTED,
        "TP16 DP32 EP512 has 512 expert ranks and Flint 256 routed experts: use fewer GPUs per"
        " replica.",
        layout=Layout(tensor=16, data=32, expert=True, nodes=64),
    ),
    Case(
        "data_ranks_of_a_dense_model_share_nothing",
        "dense",
        UNSUPPORTED,
        "spec.placement.parallelism.data 2 makes 2 copies of a model without experts, which share"
        " nothing: raise spec.replicas instead.",
        layout=Layout(data=2),
        spec=pins(data=2),
    ),
    Case(
        "layout_is_known_to_fail",
        "flint",
        UNSUPPORTED,
        "Flint BF16 on NVIDIA-H200 (sm90) with EP is broken, runs with stock layers, without"
        " Flint's own kernels: leave spec.placement.parallelism.expert out.",
        layout=Layout(tensor=2, expert=True),
        installed=judged("FlintForCausalLM", Feature.EXPERT_PARALLEL, CapabilityStatus.BROKEN),
    ),
    Case(
        "rust_frontend_has_no_balancing",
        "inkling",
        UNSUPPORTED,
        "TP8 DP2 EP16 over 2 nodes balances requests between its ranks, which the Rust frontend"
        " cannot: set spec.serving.frontend Python.",
        layout=Layout(tensor=8, data=2, expert=True, nodes=2),
        spec={"serving": {"frontend": "Rust", "modalities": ["Text"]}},
    ),
)

DRAFTS: Final = (
    Case(
        "nothing_drafts",
        "flint",
        Reason.INVALID_SPEC,
        "spec.serving.speculation.tokens is 2 and Flint has no prediction layers: set"
        " spec.serving.speculation.mode Disabled.",
        draft=2,
        spec={"serving": {"speculation": {"mode": "Fixed", "tokens": 2}}},
    ),
    Case(
        "draft_is_no_multiple_of_the_depths",
        "inkling",
        Reason.INVALID_SPEC,
        "spec.serving.speculation.tokens is 9 and Inkling has 8 prediction layers: use 1 to 8, or a"
        " multiple of 8.",
        draft=9,
        spec={"serving": {"speculation": {"mode": "Fixed", "tokens": 9}}},
    ),
    Case(
        "draft_is_longer_than_a_block",
        "inkling",
        Reason.INVALID_SPEC,
        "40 tokens would be drafted and the scheduler's block has 32 tokens: use at most 32.",
        draft=40,
    ),
    Case(
        "stages_break_drafting",
        "inkling",
        BROKEN,
        "1 token would be drafted and TP8 PP2 has 2 pipeline stages, with which drafting fails:"
        " set spec.serving.speculation.mode Disabled, or leave"
        " spec.placement.parallelism.pipeline out.",
        layout=Layout(tensor=8, pipeline=2, nodes=2),
        draft=1,
    ),
    Case(
        "drafting_is_known_to_fail",
        "inkling",
        BROKEN,
        "4 tokens would be drafted and that is unverified for Inkling BF16 on NVIDIA-H200 (sm90),"
        " drafts with 1 to 8 prediction layers: set spec.serving.speculation.mode Disabled.",
        layout=Layout(tensor=8),
        draft=4,
        installed=judged(
            "InklingForConditionalGeneration", Feature.MTP, CapabilityStatus.UNVERIFIED
        ),
    ),
)

FEATURES: Final = (
    Case(
        "adapters_do_not_work",
        "flint",
        BROKEN,
        "spec.serving.adapters is given and Flint BF16 on NVIDIA-H200 (sm90) cannot have any, vLLM"
        " has no LoRA for Flint: remove it.",
        spec={"serving": {"adapters": [{"name": "a", "uri": "pvc://weights/a"}]}},
    ),
    Case(
        "host_tier_does_not_work",
        "flint",
        BROKEN,
        "spec.cache.hostMemory is given and Flint BF16 on NVIDIA-H200 (sm90) cannot use it, hits in"
        " the host tier were measured, answers the same: set it to 0.",
        spec={"cache": {"hostMemory": "64Gi"}},
        installed=judged("FlintForCausalLM", Feature.HOST_TIER, CapabilityStatus.BROKEN),
    ),
    Case(
        "host_tier_spans_nodes",
        "inkling",
        UNSUPPORTED,
        "spec.cache.hostMemory 200Gi lies in the memory of one node and TP8 PP2 has one engine on 2"
        " nodes: set it to 0.",
        layout=Layout(tensor=8, pipeline=2, nodes=2),
        spec={"cache": {"hostMemory": "200Gi"}},
    ),
)

SMALL_TIER: Final = Case(
    "host_tier_holds_nothing",
    "inkling",
    Reason.INVALID_SPEC,
    "spec.cache.hostMemory 100Mi is less than the 294.2 MiB that one prompt of Inkling takes with"
    " TP8: give it at least so much, or 0.",
    gpu=B200,
    layout=Layout(tensor=8),
    spec={"cache": {"hostMemory": "100Mi"}},
)

STRETCHED: Final = Case(
    "convolutions_would_be_stretched",
    "conv",
    BROKEN,
    "custom with TP1 would have blocks of 8 tokens for its convolutions, whose kernels read wrong"
    " memory then: use another tensor-parallel size, or correct the groups of"
    " spec.model.custom.attention.",
)

CASES: Final = (*HARDWARE, *LAYOUTS, *DRAFTS, *FEATURES, SMALL_TIER, STRETCHED)
