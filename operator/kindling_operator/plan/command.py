"""The engine's command line and environment.

Every argument is one item, ``--name=value``: lists are easier to read and to compare that way. Each
is made with the reason why it is given, which `kindling plan --why` shows.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kindling_operator.model.api_serving import Frontend, SpeculationMode
from kindling_operator.model.architecture import CheckpointName
from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import HostTierPlan, WeightsMount
from kindling_operator.plan.adapters import adapter_arguments, adapter_environment
from kindling_operator.plan.argument import Argument
from kindling_operator.plan.capabilities import kernels
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.kv import POOL_ARGUMENT
from kindling_operator.plan.media import (
    MEDIA_ENVIRONMENT,
    encoder_bytes,
    media_arguments,
    modality_arguments,
)
from kindling_operator.plan.memory import GIB, GPU_UTILIZATION_PERCENT
from kindling_operator.plan.ranks import layout_arguments
from kindling_operator.plan.rules import unverified
from kindling_operator.plan.rules.features import asked_host_memory
from kindling_operator.plan.search import Option
from kindling_operator.plan.subject import Subject
from kindling_runtime.contract import ENGINE_PORT, FRONT_ARGUMENT

_OFFLINE: Final = {
    # The weights are a folder that is complete: nothing is looked up anywhere.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def catalog_arguments(subject: Subject) -> tuple[Argument, ...]:
    """What every replica of the model gets, whatever the plan."""
    entry = subject.entry
    why = f"{entry.title} needs it{_source(subject, 'requiredArguments')}"
    arguments = [Argument(text, why) for text in entry.required_arguments]
    why = f"how {entry.title} writes its output{_source(subject, 'parsers')}"
    if entry.parsers.reasoning is not None:
        arguments.append(Argument(f"--reasoning-parser={entry.parsers.reasoning}", why))
    if entry.parsers.tool_call is not None:
        arguments += [
            Argument(f"--tool-call-parser={entry.parsers.tool_call}", why),
            Argument("--enable-auto-tool-choice", "without it calls of tools stay text"),
        ]
    return tuple(arguments)


def checkpoint_arguments(
    subject: Subject, checkpoint: CheckpointName, weights_path: str
) -> tuple[Argument, ...]:
    """What one checkpoint needs."""
    why = f"{checkpoint.value} needs it{_source(subject, 'checkpointArguments')}"
    own = subject.entry.checkpoint_arguments.get(checkpoint, ())
    return tuple(Argument(text.replace("{weights}", weights_path), why) for text in own)


def _source(subject: Subject, fact: str) -> str:
    """Where the catalog has a fact from, to follow what it is used for."""
    source = subject.entry.sources.get(fact, "")
    return f": {source}" if source else ""


def engine_arguments(
    subject: Subject,
    option: Option,
    *,
    weights: WeightsMount,
    drain_seconds: int,
    tier: HostTierPlan | None = None,
) -> tuple[Argument, ...]:
    """The whole command. The user's own arguments come last."""
    serving, sizing = subject.spec.serving, option.sizing
    named = "spec.serving.servedName" if serving.served_name else "the InferenceModel's own name"
    asked = "spec.serving.contextLength" if serving.context_length else _LONGEST
    return (
        Argument("vllm"),
        Argument("serve"),
        Argument(weights.path, f"where the pod has {weights.uri}"),
        Argument(f"--served-model-name={subject.served_name}", named),
        Argument("--host=0.0.0.0", "the Service and the probes reach the pod by its address"),
        Argument(f"--port={ENGINE_PORT}", "where the Service sends requests"),
        Argument(f"--max-model-len={sizing.context}", asked),
        Argument(f"--max-num-batched-tokens={sizing.batched_tokens}", _BATCHED),
        Argument(f"--max-num-seqs={sizing.sequences}", "requests at once that memory is kept for"),
        Argument(f"--shutdown-timeout={drain_seconds}", "spec.rollout.drainDeadline, in seconds"),
        *front_arguments(subject),
        *media_arguments(subject),
        *_device_arguments(subject, option),
        *tier_arguments(subject, tier, option.layout),
        *modality_arguments(subject),
        *adapter_arguments(subject, option.checkpoint.name),
        *encoder_arguments(subject, option.layout),
        *catalog_arguments(subject),
        *checkpoint_arguments(subject, option.checkpoint.name, weights.path),
        *(Argument(text, "spec.serving.extraArgs") for text in serving.extra_args),
    )


def front_arguments(subject: Subject) -> tuple[Argument, ...]:
    """What stands before vLLM's routes, of which it leaves many open to everybody (docs/adr/0010).

    The Rust frontend ends at this option (T27): its plans say what that means.
    """
    if subject.spec.serving.frontend is Frontend.RUST:
        return ()
    return (Argument(FRONT_ARGUMENT, "only listed routes are served, and a drain sees what runs"),)


_DAY_SECONDS: Final = 24 * 60 * 60
_LONGEST: Final = "the longest that fits, of what the model was made for"
_BATCHED: Final = "tokens of one step that memory is kept for"


def engine_env(subject: Subject, option: Option) -> dict[str, str]:
    """The engine's variables; none of them is a secret."""
    device = _cpu_env(option) if option.gpu is None else _gpu_env()
    rust = subject.spec.serving.frontend is Frontend.RUST
    return {
        **_OFFLINE,
        **MEDIA_ENVIRONMENT,
        **device,
        **({"VLLM_USE_RUST_FRONTEND": "1"} if rust else {}),
        **subject.entry.required_environment,
        **adapter_environment(subject),
    }


def kernel_arguments(subject: Subject, gpu: GpuClass) -> tuple[Argument, ...]:
    """The attention backend of each kind of KV group, where vLLM lets us choose (trap T5).

    vLLM 0.33.0, config/attention.py:46-55 and v1/attention/selector.py:182-192.
    """
    chosen = {choice.kind: choice.backend for _, choice in kernels(subject, gpu) if choice.rendered}
    if not chosen:
        return ()
    per_kind = {_KV_KIND[kind.value]: backend for kind, backend in sorted(chosen.items())}
    text = f"--attention-config={compact({'backend_per_kind': per_kind})}"
    return (Argument(text, f"the kernels that run {subject.entry.title} on {gpu.capability}"),)


_KV_KIND: Final = {"Full": "full_attention", "Sliding": "sliding_window"}
"""vLLM's names of the kinds (v1/kv_cache_interface.py:183-193); convolutions have no choice."""


def draft_arguments(subject: Subject, draft: int) -> tuple[Argument, ...]:
    """Drafting by the model's prediction layers; both keys are required (vLLM 0.33.0,
    config/speculative.py:1252-1268)."""
    if not draft:
        return ()
    fixed = subject.spec.serving.speculation.mode is SpeculationMode.FIXED
    why = "spec.serving.speculation" if fixed else "the depth with the most tokens per second"
    text = f"--speculative-config={compact({'method': 'mtp', 'num_speculative_tokens': draft})}"
    return (Argument(text, why),)


def tier_arguments(
    subject: Subject, tier: HostTierPlan | None, layout: Layout
) -> tuple[Argument, ...]:
    """The KV tier in host memory.

    `cpu_bytes_to_use` is for all ranks of one engine together (vLLM 0.33.0,
    v1/kv_offload/cpu/spec.py:100-130), of which a pod has as many as data-parallel ranks. Neither
    `block_size`, which asserts equal groups, nor `store_threshold`, which tiering refuses, is given
    (trap T15).
    """
    if tier is None:
        return ()
    extra = {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": tier.bytes // _engines(layout),
        "blocks_per_chunk": tier.chunk_blocks,
        "eviction_policy": "lru",
    }
    connector = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }
    asked = asked_host_memory(subject) is not None
    why = "spec.cache.hostMemory" if asked else "a KV tier in memory that the nodes have to spare"
    ends = "how far apart ends of prompts are kept, for the KV tier to find them again"
    return (
        Argument(f"--kv-transfer-config={compact(connector)}", why),
        Argument(f"--prefix-cache-retention-interval={tier.retention_tokens}", ends),
    )


def encoder_arguments(subject: Subject, layout: Layout) -> tuple[Argument, ...]:
    """The cache of encoded images and audio (vLLM 0.33.0, distributed/ec_transfer/ec_connector/
    cpu/common.py:70-97)."""
    size = encoder_bytes(subject)
    if not size:
        return ()
    connector = {
        "ec_connector": "ECCPUConnector",
        "ec_role": "ec_both",
        "ec_connector_extra_config": {"ec_cpu_bytes": size // _engines(layout)},
    }
    return (Argument(f"--ec-transfer-config={compact(connector)}", "spec.cache.encoderMemory"),)


def _engines(layout: Layout) -> int:
    """Engines of one pod: its data-parallel ranks, each with a tier of its own."""
    return max(1, layout.data // layout.nodes)


def compact(value: Any) -> str:
    """JSON in one word, keys as given."""
    return msgspec.json.encode(value).decode()


def _device_arguments(subject: Subject, option: Option) -> tuple[Argument, ...]:
    if option.gpu is None:
        # Compiled mode wants a C++ compiler in the image, and a minute more at each start.
        return (Argument("--enforce-eager", "the image has no compiler for compiled mode"),)
    share = f"--gpu-memory-utilization={GPU_UTILIZATION_PERCENT / 100}"
    return (
        Argument(share, "the share of each GPU's memory that the plan divides"),
        *_pool_arguments(option),
        *layout_arguments(option.layout),
        *kernel_arguments(subject, option.gpu),
        *draft_arguments(subject, option.draft),
    )


def _pool_arguments(option: Option) -> tuple[Argument, ...]:
    """The planned pool, where the estimates beside it were measured. Elsewhere vLLM's own profile
    run decides, which may find that more is in use than anybody knew."""
    if option.way is None or unverified(option.way.candidate):
        return ()
    size = Argument(
        f"{POOL_ARGUMENT}={option.sizing.kv.bytes}",
        "the KV cache that the plan says, in every replica the same",
    )
    return (size,)


def _cpu_env(option: Option) -> dict[str, str]:
    sizing = option.sizing
    threads = max(1, sizing.cpu_millis // 1000)
    return {
        "VLLM_CPU_KVCACHE_SPACE": str(sizing.kv.bytes // GIB),
        # Threads that spin on CPUs of others: 64 tokens took 14.5 s with two, 1.1 s with one.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
    }


def _gpu_env() -> dict[str, str]:
    return {
        # A clock of vLLM's own (600 s, v1/engine/core_client.py:753-772), which ends a load that
        # still reads. The runtime knows whether it does, and ends one that does not.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(_DAY_SECONDS),
    }
