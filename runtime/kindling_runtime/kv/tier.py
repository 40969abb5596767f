"""The tier as vLLM loads it: `{"type": "ObjectTier", "module_path": "kindling_runtime.kv.tier"}` in
`secondary_tiers` of TieringOffloadingSpec, with the fields of `settings.Settings` beside them.

Written for vLLM 0.33.0 (v1/kv_offload/tiering/base.py: SecondaryTierManager), which calls it in the
scheduler's process, under a lock of its own. A tier that cannot run stays out of the way: every
lookup is a miss, every job ends at once, and `/status` says why.
"""

import importlib.metadata
import logging
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar, Final

from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadKey,
    OffloadPolicy,
    ReqContext,
    RequestOffloadingContext,
    ScheduleEndContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

from kindling_runtime.contract import CacheReason, CacheStatus
from kindling_runtime.kv import measures, telling
from kindling_runtime.kv.bucket import StoreError, Trouble, open_bucket
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.engine import Engine
from kindling_runtime.kv.front import Answer, Front, Shape
from kindling_runtime.kv.policy.admission import Admission
from kindling_runtime.kv.policy.chains import layout_for
from kindling_runtime.kv.policy.scope import Facts, Group, Owner, place
from kindling_runtime.kv.rows import Rows
from kindling_runtime.kv.settings import Settings, settings
from kindling_runtime.kv.standing import broken
from kindling_runtime.plugins import record

_ANSWERS: Final = {
    Answer.HIT: LookupResult.HIT,
    Answer.MISS: LookupResult.MISS,
    Answer.LATER: LookupResult.RETRY,
}
_log = logging.getLogger("vllm.kindling.kv")


class ObjectTier(SecondaryTierManager):  # type: ignore[misc]
    """A bucket below the host memory of one engine."""

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        **told: Any,
    ) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self._folder = record.folder_of(os.environ)
        self._measures = measures.Measures()
        self._policy = RequestOffloadingContext()
        engine: Engine | None = None
        search_seconds = 1.0
        try:
            wanted = settings(told)
            search_seconds = wanted.deadlines.search
            engine = _engine(offloading_spec, primary_kv_view, wanted, self._folder)
            if wanted.admission is Admission.SECOND_USE:
                # Chunks that the engine has already are offered again: the second use is theirs.
                self._policy = RequestOffloadingContext(policy=OffloadPolicy.REQUEST_LEVEL)
        except StoreError as error:
            refused = error.trouble is Trouble.REFUSED
            self._stay_out(CacheReason.REFUSED if refused else CacheReason.UNREACHABLE, error)
        except Exception as error:
            self._stay_out(CacheReason.BROKEN, error)
        self._front = Front(engine, shapes(offloading_spec), search_seconds)

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """Whether the store has a chunk: RETRY until the request's search is over."""
        end = req_context.get_offload_key_position(key) or 0
        answer = self._front.lookup(req_context.req_id, key, end, lambda: positions_of(req_context))
        return _ANSWERS[answer]

    def submit_store(self, job_metadata: TransferJob) -> None:
        """Offer chunks; they are written if they are worth it and the store lacks them."""
        context = job_metadata.req_context
        chunks = [
            (bytes(key), int(slot), context.get_offload_key_position(key))
            for key, slot in zip(job_metadata.keys, job_metadata.chunk_ids, strict=True)
        ]
        self._front.store(
            job_metadata.job_id, context.req_id, chunks, lambda: positions_of(context)
        )

    def submit_load(self, job_metadata: TransferJob) -> None:
        """Bring chunks to the primary tier, within the deadline."""
        self._front.load(
            job_metadata.job_id,
            job_metadata.req_context.req_id,
            list(job_metadata.keys),
            job_metadata.chunk_ids.tolist(),
        )

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Jobs that are over, each once."""
        return [
            JobResult(
                job_id=each.job,
                success=each.success,
                successful_keys=None if each.success or not each.done else tuple(each.done),
                transfer_time=each.seconds,
                transfer_bytes=each.chunks * self.block_size_bytes,
            )
            for each in self._front.ended()
        ]

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Whether chunks that the engine has already are wanted too."""
        return self._policy

    def on_request_finished(self, req_context: ReqContext) -> None:
        """What waits for more of the request is written as it is."""
        self._front.finished(req_context.req_id)

    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        """Begin the searches of this step."""
        self._front.step()

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Use is told by searches, which name the prompt as a whole."""

    def drain_jobs(self) -> None:
        """Wait until the primary tier's memory is not touched, at most for the deadlines."""
        self._front.wait_idle()

    def shutdown(self) -> None:
        """End the tier's thread, and let go of the primary tier's memory."""
        self._front.stop()

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """All metrics of the tier."""
        return measures.definitions()

    def get_stats(self) -> Any:
        """What has been measured since the last call."""
        engine = self._front.engine
        return None if engine is None else self._measures.taken(engine)

    def _stay_out(self, reason: CacheReason, error: Exception) -> None:
        _log.error("the object tier of the KV cache is not used: %s", error)
        _tell(self._folder, broken(reason, str(error)))


def _engine(spec: Any, view: memoryview, wanted: Settings, folder: Path) -> Engine:
    """A thread that runs. Raises StoreError or ValueError where it cannot."""
    chunk = view.strides[0] if view.strides else 0
    facts = facts_of(spec, wanted, chunk)
    owner = Owner(
        cluster=wanted.sharing.cluster,
        namespace=wanted.sharing.namespace,
        shared=wanted.sharing.bucket,
    )

    def prepare() -> Desk:
        bucket, below = open_bucket(wanted.uri)
        where = place(facts, owner, below=below)
        return Desk(wanted, bucket, where, layout_for(chunk), Rows(view))

    engine = Engine(prepare, tell=lambda status: _tell(folder, status))
    engine.start()
    return engine


def facts_of(spec: Any, wanted: Settings, chunk: int) -> Facts:
    """What the bytes of chunks depend on, from vLLM's own configuration of the offload."""
    config = spec.config
    parallel = config.parallel
    canonical = "canonical-" if getattr(config, "canonical_layout", False) else ""
    return Facts(
        model=wanted.model or config.model.name,
        weights=wanted.weights,
        engine="vllm-" + ".".join(importlib.metadata.version("vllm").split(".")[:2]),
        layout=f"{canonical}{getattr(config, 'kv_cache_layout', None)}",
        dtype=str(config.model.dtype),
        tensor=parallel.tp_size,
        pipeline=parallel.pp_size,
        prefill_context=parallel.pcp_size,
        decode_context=parallel.dcp_size,
        portable=bool(parallel.is_parallelism_agnostic),
        tokens_per_hash=config.cache.tokens_per_hash,
        blocks_per_chunk=config.cache.blocks_per_chunk,
        chunk_bytes=chunk,
        groups=tuple(
            Group(
                tokens_per_block=group.tokens_per_block,
                layers=tuple(group.layer_names),
                window=_window(group),
            )
            for group in config.groups
        ),
        salt=wanted.salt,
    )


def shapes(spec: Any) -> dict[int, Shape]:
    """Of the chunks of each group, by the number that its keys end with."""
    blocks = spec.config.cache.blocks_per_chunk
    return {
        getattr(group, "group_id", number): Shape(group.tokens_per_block * blocks, _window(group))
        for number, group in enumerate(spec.config.groups)
    }


def positions_of(context: ReqContext) -> Iterable[tuple[bytes, int]]:
    """All chunks of a request that vLLM has named, with the token at which each ends.

    vLLM 0.33 tells them one by one by a public method, and all of them only so.
    """
    return tuple(context._offload_key_positions.items())


def _window(group: Any) -> int | None:
    found: int | None = getattr(group, "sliding_window_size_in_chunks", None)
    return found


def _tell(folder: Path, status: CacheStatus) -> None:
    try:
        telling.write(folder, status)
    except OSError as error:
        _log.warning("how the object tier stands is not reported: %s", error)
