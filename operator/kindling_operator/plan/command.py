"""The engine's command line and environment.

Every argument is one item, ``--name=value``: lists are easier to read and to compare that way.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kindling_operator.model.api_serving import Frontend
from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import HostTierPlan
from kindling_operator.plan.adapters import adapter_arguments, adapter_environment
from kindling_operator.plan.capabilities import kernels
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.media import (
    MEDIA_ENVIRONMENT,
    encoder_bytes,
    media_arguments,
    modality_arguments,
)
from kindling_operator.plan.memory import GIB, GPU_UTILIZATION_PERCENT
from kindling_operator.plan.ranks import layout_arguments
from kindling_operator.plan.search import Option
from kindling_operator.plan.subject import Subject
from kindling_runtime.contract import ENGINE_PORT

_OFFLINE: Final = {
    # The weights are a folder that is complete: nothing is looked up anywhere.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def catalog_arguments(subject: Subject) -> tuple[str, ...]:
    """What every replica of the model gets, whatever the plan."""
    parsers = subject.entry.parsers
    arguments = list(subject.entry.required_arguments)
    if parsers.reasoning is not None:
        arguments.append(f"--reasoning-parser={parsers.reasoning}")
    if parsers.tool_call is not None:
        arguments += [f"--tool-call-parser={parsers.tool_call}", "--enable-auto-tool-choice"]
    return tuple(arguments)


def engine_argv(
    subject: Subject,
    option: Option,
    *,
    weights_path: str,
    drain_seconds: int,
    tier: HostTierPlan | None = None,
) -> tuple[str, ...]:
    """The whole command. The user's own arguments come last."""
    sizing = option.sizing
    own = subject.entry.checkpoint_arguments.get(option.checkpoint.name, ())
    return (
        "vllm",
        "serve",
        weights_path,
        f"--served-model-name={subject.served_name}",
        "--host=0.0.0.0",
        f"--port={ENGINE_PORT}",
        f"--max-model-len={sizing.context}",
        f"--max-num-batched-tokens={sizing.batched_tokens}",
        f"--max-num-seqs={sizing.sequences}",
        f"--shutdown-timeout={drain_seconds}",
        *media_arguments(subject),
        *_device_arguments(subject, option),
        *tier_arguments(tier, option.layout),
        *modality_arguments(subject),
        *adapter_arguments(subject, option.checkpoint.name),
        *encoder_arguments(subject, option.layout),
        *catalog_arguments(subject),
        *(argument.replace("{weights}", weights_path) for argument in own),
        *subject.spec.serving.extra_args,
    )


def engine_env(subject: Subject, option: Option, *, startup_seconds: int) -> dict[str, str]:
    """The engine's variables; none of them is a secret."""
    device = _cpu_env(option) if option.gpu is None else _gpu_env(startup_seconds)
    rust = subject.spec.serving.frontend is Frontend.RUST
    return {
        **_OFFLINE,
        **MEDIA_ENVIRONMENT,
        **device,
        **({"VLLM_USE_RUST_FRONTEND": "1"} if rust else {}),
        **subject.entry.required_environment,
        **adapter_environment(subject),
    }


def kernel_arguments(subject: Subject, gpu: GpuClass) -> tuple[str, ...]:
    """The attention backend of each kind of KV group, where vLLM lets us choose (trap T5).

    vLLM 0.33.0, config/attention.py:46-55 and v1/attention/selector.py:182-192.
    """
    chosen = {choice.kind: choice.backend for _, choice in kernels(subject, gpu) if choice.rendered}
    if not chosen:
        return ()
    per_kind = {_KV_KIND[kind.value]: backend for kind, backend in sorted(chosen.items())}
    return (f"--attention-config={compact({'backend_per_kind': per_kind})}",)


_KV_KIND: Final = {"Full": "full_attention", "Sliding": "sliding_window"}
"""vLLM's names of the kinds (v1/kv_cache_interface.py:183-193); convolutions have no choice."""


def draft_arguments(draft: int) -> tuple[str, ...]:
    """Drafting by the model's prediction layers; both keys are required (vLLM 0.33.0,
    config/speculative.py:1252-1268)."""
    if not draft:
        return ()
    return (f"--speculative-config={compact({'method': 'mtp', 'num_speculative_tokens': draft})}",)


def tier_arguments(tier: HostTierPlan | None, layout: Layout) -> tuple[str, ...]:
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
    return (
        f"--kv-transfer-config={compact(connector)}",
        f"--prefix-cache-retention-interval={tier.retention_tokens}",
    )


def encoder_arguments(subject: Subject, layout: Layout) -> tuple[str, ...]:
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
    return (f"--ec-transfer-config={compact(connector)}",)


def _engines(layout: Layout) -> int:
    """Engines of one pod: its data-parallel ranks, each with a tier of its own."""
    return max(1, layout.data // layout.nodes)


def compact(value: Any) -> str:
    """JSON in one word, keys as given."""
    return msgspec.json.encode(value).decode()


def _device_arguments(subject: Subject, option: Option) -> tuple[str, ...]:
    if option.gpu is None:
        # Compiled mode wants a C++ compiler in the image, and a minute more at each start.
        return ("--enforce-eager",)
    return (
        f"--gpu-memory-utilization={GPU_UTILIZATION_PERCENT / 100}",
        *layout_arguments(option.layout),
        *kernel_arguments(subject, option.gpu),
        *draft_arguments(option.draft),
    )


def _cpu_env(option: Option) -> dict[str, str]:
    sizing = option.sizing
    threads = max(1, sizing.cpu_millis // 1000)
    return {
        "VLLM_CPU_KVCACHE_SPACE": str(sizing.kv.bytes // GIB),
        # Threads that spin on CPUs of others: 64 tokens took 14.5 s with two, 1.1 s with one.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
    }


def _gpu_env(startup_seconds: int) -> dict[str, str]:
    return {
        # The default of 600 s is shorter than many loads (vLLM 0.33.0, core_client.py:655-672).
        "VLLM_ENGINE_READY_TIMEOUT_S": str(startup_seconds),
    }
