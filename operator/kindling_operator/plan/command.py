"""The engine's command line and environment.

Every argument is one item, ``--name=value``: lists are easier to read and to compare that way.
"""

from __future__ import annotations

from typing import Final

from kindling_operator.model.architecture import Modality
from kindling_operator.plan.memory import GIB, GPU_UTILIZATION_PERCENT
from kindling_operator.plan.search import Option
from kindling_operator.plan.subject import Subject
from kindling_runtime.contract import ENGINE_PORT

NO_MEDIA_DOMAIN: Final = "fetching-media-is-off.invalid"
"""An empty list would allow every host in vLLM; nothing resolves below .invalid (RFC 2606)."""

_OFFLINE: Final = {
    # The weights are a folder that is complete: nothing is looked up anywhere.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # A redirect would lead around --allowed-media-domains.
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
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
    subject: Subject, option: Option, *, weights_path: str, drain_seconds: int
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
        f"--allowed-media-domains={NO_MEDIA_DOMAIN}",
        *_device_arguments(option),
        *_modality_arguments(subject),
        *catalog_arguments(subject),
        *(argument.replace("{weights}", weights_path) for argument in own),
        *subject.spec.serving.extra_args,
    )


def engine_env(subject: Subject, option: Option, *, startup_seconds: int) -> dict[str, str]:
    """The engine's variables; none of them is a secret."""
    device = _cpu_env(option) if option.gpu is None else _gpu_env(startup_seconds)
    return {**_OFFLINE, **device, **subject.entry.required_environment}


def _device_arguments(option: Option) -> tuple[str, ...]:
    if option.gpu is None:
        # Compiled mode wants a C++ compiler in the image, and a minute more at each start.
        return ("--enforce-eager",)
    return (f"--gpu-memory-utilization={GPU_UTILIZATION_PERCENT / 100}",)


def _modality_arguments(subject: Subject) -> tuple[str, ...]:
    """Switch off what the model could take and the user does not want."""
    unwanted = [m for m in subject.architecture.modalities if m not in subject.modalities]
    if not unwanted:
        return ()
    if subject.modalities == (Modality.TEXT,):
        return ("--language-model-only",)
    limits = ",".join(f'"{modality.value.lower()}":0' for modality in sorted(unwanted))
    return (f"--limit-mm-per-prompt={{{limits}}}",)


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
