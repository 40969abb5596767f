"""What a worker of the engine writes of itself, and what becomes of it."""

import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kindling_runtime.contract import EngineFacts, GroupBackend, MemoryUse
from kindling_runtime.plugins import record, telling

GIB = 1 << 30


def group(backend: str, window: int | None = None) -> Any:
    named = SimpleNamespace(get_name=lambda: backend)
    return SimpleNamespace(backend=named, kv_cache_spec=SimpleNamespace(sliding_window=window))


def worker(*groups: Any, **memory: int) -> Any:
    runner = SimpleNamespace(attn_groups=[[each] for each in groups])
    if "weights" in memory:
        runner.model_memory_usage = memory.pop("weights")
    return SimpleNamespace(model_runner=runner, **memory)


ON_GPU = worker(
    group("FLASH_ATTN"),
    group("FLASH_ATTN", 512),
    group("FLASH_ATTN", 512),
    weights=20 * GIB,
    peak_activation_memory=3 * GIB,
    cudagraph_memory_estimate=1 * GIB,
    available_kv_cache_memory_bytes=100 * GIB,
)
TOLD = EngineFacts(
    attention_backends=(
        GroupBackend(group="full length", backend="FLASH_ATTN"),
        GroupBackend(group="window 512", backend="FLASH_ATTN"),
    ),
    memory=(
        MemoryUse(item="Weights", bytes=20 * GIB),
        MemoryUse(item="Activations", bytes=2 * GIB),
        MemoryUse(item="CUDA graphs", bytes=1 * GIB),
        MemoryUse(item="KV cache", bytes=100 * GIB),
    ),
)


def test_a_worker_tells_its_kernels_once_each_and_the_lines_of_the_plan() -> None:
    assert telling.facts_of(ON_GPU) == TOLD


def test_what_a_worker_on_cpu_does_not_have_is_left_out() -> None:
    assert telling.facts_of(worker(group("CPU_ATTN"))) == EngineFacts(
        attention_backends=(GroupBackend(group="full length", backend="CPU_ATTN"),)
    )


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Any:
    """vLLM's module with a wrapper of workers, as far as it is used."""

    class WorkerWrapperBase:
        def __init__(self, made: Any) -> None:
            self.made, self.worker = made, None

        def initialize_from_config(self, configs: list[str]) -> str:
            self.worker = self.made
            return configs[0]

    module = types.ModuleType("vllm.v1.worker.worker_base")
    module.WorkerWrapperBase = WorkerWrapperBase  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return WorkerWrapperBase


def test_it_is_written_after_vllm_has_done_its_work(base: Any, tmp_path: Path) -> None:
    telling.engage(tmp_path)

    assert base(ON_GPU).initialize_from_config(["config"]) == "config"
    found = telling.read(tmp_path)

    assert found.attention_backends == TOLD.attention_backends
    assert set(found.memory) == set(TOLD.memory)


def test_a_worker_that_cannot_be_read_serves_nevertheless(base: Any, tmp_path: Path) -> None:
    telling.engage(tmp_path)

    assert base(SimpleNamespace()).initialize_from_config(["config"]) == "config"
    assert telling.read(tmp_path) == EngineFacts()


def test_of_several_workers_the_most_memory_and_every_kernel_count(tmp_path: Path) -> None:
    for name, facts in (
        ("1", TOLD),
        (
            "2",
            EngineFacts(
                attention_backends=(GroupBackend(group="full length", backend="TRITON_ATTN"),),
                memory=(MemoryUse(item="Weights", bytes=21 * GIB),),
            ),
        ),
        ("3", None),
    ):
        body = b"{" if facts is None else msgspec.json.encode(facts)
        (tmp_path / f"{name}{telling.SUFFIX}").write_bytes(body)

    found = telling.read(tmp_path)

    assert GroupBackend(group="full length", backend="TRITON_ATTN") in found.attention_backends
    assert MemoryUse(item="Weights", bytes=21 * GIB) in found.memory


def test_what_an_earlier_engine_told_is_forgotten(base: Any, tmp_path: Path) -> None:
    telling.engage(tmp_path)
    base(ON_GPU).initialize_from_config(["config"])

    record.forget(tmp_path)

    assert telling.read(tmp_path) == EngineFacts()
