"""The engine tells what it runs with: the attention kernel of each KV group, and its memory.

Not a correction: vLLM's own work is done first, and nothing of it depends on what is read here. A
worker knows both once its KV cache is made (v1/worker/worker_base.py of vLLM 0.33.0:
WorkerWrapperBase.initialize_from_config), which vLLM only logs.
"""

import functools
import importlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from kindling_runtime import foreign, wire
from kindling_runtime.contract import EngineFacts, GroupBackend, MemoryUse

SUFFIX: Final = ".facts"
_MOST_BYTES: Final = 1 << 20

_log = logging.getLogger("vllm.kindling")


def engage(folder: Path) -> None:
    """Have every worker of this process write its facts to `folder`; may raise anything."""
    base: Any = importlib.import_module("vllm.v1.worker.worker_base").WorkerWrapperBase
    made = base.initialize_from_config

    @functools.wraps(made)
    def initialize_from_config(self: Any, *given: Any, **named: Any) -> Any:
        result = made(self, *given, **named)
        try:
            _write(folder, facts_of(self.worker))
        except Exception:
            _log.exception("what the engine runs with is not reported")
        return result

    base.initialize_from_config = initialize_from_config


def facts_of(worker: Any) -> EngineFacts:
    """What a worker knows of itself; what it does not have is left out."""
    return EngineFacts(
        attention_backends=tuple(dict.fromkeys(_backends(worker))), memory=tuple(_memory(worker))
    )


def read(folder: Path) -> EngineFacts:
    """The facts of all workers together: every kernel once, of each kind of memory the most."""
    found = [facts for file in sorted(folder.glob(f"*{SUFFIX}")) for facts in _facts(file)]
    memory: dict[str, int] = {}
    for use in (use for facts in found for use in facts.memory):
        memory[use.item] = max(use.bytes, memory.get(use.item, 0))
    return EngineFacts(
        attention_backends=tuple(
            dict.fromkeys(each for facts in found for each in facts.attention_backends)
        ),
        memory=tuple(MemoryUse(item=item, bytes=size) for item, size in sorted(memory.items())),
    )


def _backends(worker: Any) -> Iterator[GroupBackend]:
    for groups in getattr(worker.model_runner, "attn_groups", ()):
        for group in groups:
            window = getattr(group.kv_cache_spec, "sliding_window", None)
            name = f"window {window}" if window else "full length"
            yield GroupBackend(group=name, backend=group.backend.get_name())


def _memory(worker: Any) -> Iterator[MemoryUse]:
    """The lines that a plan has too; vLLM counts the graphs' estimate with the activations."""
    weights = getattr(worker.model_runner, "model_memory_usage", 0)
    peak = getattr(worker, "peak_activation_memory", 0)
    graphs = getattr(worker, "cudagraph_memory_estimate", 0)
    cache = getattr(worker, "available_kv_cache_memory_bytes", 0)
    lines = {
        "Weights": weights,
        "Activations": peak - graphs if peak > graphs else 0,
        "CUDA graphs": graphs if peak else 0,
        "KV cache": cache,
    }
    return (MemoryUse(item=item, bytes=int(size)) for item, size in lines.items() if size)


def _write(folder: Path, facts: EngineFacts) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{os.getpid()}.told"
    unfinished.write_bytes(msgspec.json.encode(facts))
    unfinished.replace(folder / f"{os.getpid()}{SUFFIX}")


def _facts(file: Path) -> Iterator[EngineFacts]:
    try:
        facts = wire.decoded(foreign.content(file, most=_MOST_BYTES), EngineFacts)
    except OSError:
        return
    if facts is not None:
        yield facts
