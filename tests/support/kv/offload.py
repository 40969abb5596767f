"""vLLM's own offload without an engine or a GPU: its manager over a host tier, and a scheduler that
asks as vLLM's does. Runs where vLLM is; standard library, numpy and the runtime only.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

TOKENS: Final = 16
BLOCKS: Final = 4
PAGE: Final = 4096
_WAIT_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 0.001


def config(*, chunk: int, rows: int, tier: dict[str, Any], windows: Sequence[int | None]) -> Any:
    """Of one worker with groups of those windows (in chunks) and chunks of `chunk` bytes."""
    known = {each.name for each in fields(OffloadingGroupConfig)}  # vLLM 0.32 tells no windows
    groups = tuple(
        OffloadingGroupConfig(
            tokens_per_block=TOKENS,
            layer_names=(f"layer.{number}",),
            **{
                name: value
                for name, value in {
                    "group_id": number,
                    "sliding_window_size_in_chunks": window,
                }.items()
                if name in known
            },
        )
        for number, window in enumerate(windows)
    )
    told = {"type": "ObjectTier", "module_path": "kindling_runtime.kv.tier", **tier}
    return OffloadingConfig(
        groups=groups,
        worker_kv_bytes_per_block=chunk // BLOCKS,
        enable_kv_cache_events=False,
        extra_config={"cpu_bytes_to_use": chunk * rows, "secondary_tiers": [told]},
        engine_id=f"kindling-test-{uuid.uuid4()}",
        model=OffloadingModelConfig(name="org/tiny", dtype="bfloat16"),
        cache=OffloadingCacheConfig(tokens_per_hash=TOKENS, blocks_per_chunk=BLOCKS),
        parallel=OffloadingParallelConfig(
            rank=0,
            world_size=1,
            tp_size=1,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=True,
        ),
    )


@dataclass(slots=True)
class Prompt:
    """A request of so many chunks; its keys by group."""

    context: Any
    keys: list[list[Any]]


@dataclass(slots=True)
class Offload:
    """A scheduler over vLLM's manager; `step` is the end of one of its steps."""

    spec: Any
    manager: Any
    steps: int = 0
    _new: list[str] = field(default_factory=list)

    @property
    def lock(self) -> Any:
        """The manager's; vLLM 0.32 has none."""
        return getattr(self.manager, "lock", None) or contextlib.nullcontext()

    def begin(self, request: str, hashes: Sequence[bytes]) -> Prompt:
        """A new request."""
        context = ReqContext(req_id=request)
        keys = []
        for number, _ in enumerate(self.spec.config.groups):
            row = [make_offload_key(each, number) for each in hashes]
            for index, key in enumerate(row):
                context.set_offload_key_position(key, (index + 1) * TOKENS * BLOCKS)
            keys.append(row)
        with self.lock:
            self.manager.on_new_request(context)
        self._new.append(request)
        return Prompt(context, keys)

    def prefix(self, prompt: Prompt, group: int = 0) -> int:
        """How many chunks from the beginning are in the host tier in the end; steps on while
        something is being looked for or brought."""
        found: int = self._asked(lambda: self._prefix(prompt.keys[group], prompt.context))
        return found

    def store(
        self, prompt: Prompt, indexes: Sequence[int], content: Callable[[Any, int], Any]
    ) -> int:
        """What a worker would have stored; how many chunks the host tier took."""
        wanted = [row[index] for row in prompt.keys for index in indexes]
        with self.lock:
            taken = self.manager.prepare_store(wanted, prompt.context)
            if taken is None or not taken.keys_to_store:
                return 0
            rows = self.rows()
            for key, slot in zip(taken.keys_to_store, taken.store_spec.chunk_ids, strict=True):
                rows[slot] = content(bytes(key), rows.shape[1])
            self.manager.complete_store(taken.keys_to_store, prompt.context)
        return len(taken.keys_to_store)

    def read(self, prompt: Prompt, index: int, group: int = 0) -> Any:
        """A copy of a chunk in the host tier."""
        key = prompt.keys[group][index]
        with self.lock:
            spec = self.manager.prepare_load([key], prompt.context)
            copy = self.rows()[int(spec.chunk_ids[0])].copy()
            self.manager.complete_load([key], prompt.context)
        return copy

    def finish(self, prompt: Prompt) -> None:
        """The end of a request."""
        with self.lock:
            self.manager.on_request_finished(prompt.context)
        self.step()

    def step(self) -> None:
        """The end of a step."""
        self.steps += 1
        new, self._new = self._new, []
        with self.lock:
            self.manager.on_schedule_end(ScheduleEndContext(new_req_ids=new, preempted_req_ids=()))

    def settle(self) -> None:
        """Step until no transfer is under way."""
        self._asked(lambda: None if self.manager.has_pending_work() else True)

    def rows(self) -> Any:
        """The host tier's memory."""
        return np.asarray(self.manager.primary_tier.get_kv_memoryview()).view(np.uint8)

    def close(self) -> None:
        """The end of the engine."""
        self.manager.shutdown()

    def _prefix(self, keys: Sequence[Any], context: Any) -> int | None:
        found, later = 0, False
        with self.lock:
            for key in keys:
                result = self.manager.lookup(key, context)
                if result is LookupResult.MISS:
                    break
                later |= result is not LookupResult.HIT
                found += 1
        return None if later else found

    def _asked(self, look: Callable[[], Any]) -> Any:
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            found = look()
            self.step()
            if found is not None:
                return found
            time.sleep(_STEP_SECONDS)
        raise TimeoutError("no answer")


def opened(**shape: Any) -> Offload:
    """An engine that has just started; arguments as of `config`."""
    spec = TieringOffloadingSpec(config(**shape))
    return Offload(spec, spec.get_manager())
