"""The tier's metrics, which vLLM serves with its own: names, and what has changed since asked."""

import importlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.engine import Engine
from kindling_runtime.kv.policy.breaker import BreakerState
from kindling_runtime.kv.policy.prices import monthly_cost, requests_per_gb

PREFIX: Final = "kindling_kv_"
_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "prompts": ("Prompts that were looked for in the store.", ()),
    "prompt_tokens": ("Tokens of prompts that were looked for.", ()),
    "hit_prompts": ("Prompts of which something was found that pays.", ()),
    "hit_tokens": ("Tokens that were found and that the engine did not have.", ()),
    "late_searches": ("Searches that had no answer within their deadline.", ()),
    "unpaid_prompts": ("Prompts that were not loaded because a recompute is quicker.", ()),
    "loaded_bytes": ("Bytes of chunks that were brought to the primary tier.", ()),
    "loaded_chunks": ("Chunks that were brought to the primary tier.", ()),
    "read_bytes": ("Bytes that were read from the store.", ()),
    "lost_chunks": ("Chunks that were to be loaded and were not, by reason.", ("reason",)),
    "hedges": ("Second requests that were sent after slow first ones.", ()),
    "hedges_won": ("Second requests that were quicker than the first.", ()),
    "stored_bytes": ("Bytes that were written to the store.", ()),
    "stored_objects": ("Objects that were written to the store.", ()),
    "duplicate_bytes": ("Bytes that were sent although another pod had just done so.", ()),
    "unwritten_bytes": ("Bytes that were offered and not sent, by reason.", ("reason",)),
    "requests": ("Requests to the store, by kind.", ("kind",)),
    "failures": ("Requests to the store that came to nothing, by reason.", ("reason",)),
    "collected_objects": ("Objects that this pod has deleted for age, space or damage.", ()),
    "collected_bytes": ("Bytes of them.", ()),
    "breaker_openings": ("How often the store was left alone after failures in a row.", ()),
}
GAUGES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "breaker_state": ("1 for the present state of the circuit breaker.", ("state",)),
    "load_bandwidth_bytes_per_second": ("Of the loads of late.", ()),
    "store_latency_seconds": ("Of a question to the store, of late.", ()),
    "prefill_tokens_per_second": ("Of the engine of late, as the tier sees it.", ()),
    "pays_from_tokens": ("Fewest tokens that are loaded; 0 unknown, -1 never.", ()),
    "requests_per_gb": ("Requests to the store for each GB that was read or written.", ()),
    "cost_dollars_per_month": ("Estimate by list prices, if all goes on as so far.", ()),
    "kept_bytes": ("Of the deployment in the store, as the last collection found.", ()),
    "known_objects": ("Objects that the pod knows to exist.", ()),
    "buffered_bytes": ("Memory that reads and writes use now.", ()),
}
HISTOGRAMS: Final[Mapping[str, str]] = {
    "search_seconds": "Time of a search for one prompt.",
    "load_seconds": "Time of a load of one prompt's chunks.",
    "store_seconds": "Time of a write of one object.",
}


def definitions() -> dict[str, Any]:
    """In vLLM's own types."""
    base: Any = importlib.import_module("vllm.v1.kv_offload.base")
    found: dict[str, Any] = {}
    for name, (text, labels) in COUNTERS.items():
        found[PREFIX + name] = base.OffloadingCounterMetadata(text, labelnames=labels)
    for name, (text, labels) in GAUGES.items():
        found[PREFIX + name] = base.OffloadingGaugeMetadata(text, labelnames=labels)
    for name, text in HISTOGRAMS.items():
        found[PREFIX + name] = base.OffloadingHistogramMetadata(text, buckets=_SECONDS)
    return found


@dataclass(slots=True)
class Measures:
    """What was told so far."""

    _told: dict[tuple[str, tuple[str, ...]], float] = field(default_factory=dict)

    def taken(self, engine: Engine) -> Any:
        """All that has changed since the last call, as vLLM's statistics."""
        desk = engine.desk
        if desk is None:
            return None
        module = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics"
        stats: Any = importlib.import_module(module).OffloadingConnectorStats()
        for name, labels, value in counted(engine, desk):
            more = value - self._told.get((name, labels), 0)
            if more > 0:
                self._told[name, labels] = value
                stats.increase_counter(PREFIX + name, more, labels)
        if stats.is_empty() and self._told:
            return None  # nothing has happened, so the gauges stand
        for name, labels, value in gauged(engine, desk):
            self._told[name, labels] = value
            stats.set_gauge(PREFIX + name, value, labels)
        for name in HISTOGRAMS:
            samples: deque[float] = getattr(desk.counts, name)
            while samples:
                stats.observe_histogram(PREFIX + name, samples.popleft())
        return stats


def counted(engine: Engine, desk: Desk) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Every counter with its labels."""
    counts, bucket = desk.counts, desk.bucket
    for name in COUNTERS:
        match name:
            case "unpaid_prompts":
                yield name, (), counts.unpaid
            case "collected_objects":
                yield name, (), engine.collector.deleted if engine.collector else 0
            case "collected_bytes":
                yield name, (), engine.collector.deleted_bytes if engine.collector else 0
            case "breaker_openings":
                yield name, (), bucket.breaker.opened
            case "lost_chunks":
                yield from ((name, (str(why),), n) for why, n in tuple(counts.lost.items()))
            case "unwritten_bytes":
                yield from ((name, (str(why),), n) for why, n in tuple(counts.unwritten.items()))
            case "requests":
                yield from ((name, (str(kind),), n) for kind, n in tuple(bucket.asked.items()))
            case "failures":
                yield from ((name, (str(why),), n) for why, n in tuple(bucket.failed.items()))
            case _:
                yield name, (), getattr(counts, name)


def gauged(engine: Engine, desk: Desk) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Every gauge that is known, with its labels."""
    worth, state = desk.worth, desk.bucket.breaker.state(desk.clock())
    for each in BreakerState:
        yield "breaker_state", (str(each),), float(each is state)
    pays_from = worth.threshold()
    yield "pays_from_tokens", (), -1 if pays_from is None else pays_from
    yield "known_objects", (), len(desk.presence)
    yield "buffered_bytes", (), desk.reading.used + desk.writing.used
    counts, kept = desk.counts, engine.collector.kept_bytes if engine.collector else None
    moved = counts.read_bytes + counts.stored_bytes
    asked = {str(kind): count for kind, count in tuple(desk.bucket.asked.items())}
    yield "requests_per_gb", (), requests_per_gb(asked, moved)
    scheme, seconds = desk.settings.uri.partition("://")[0], desk.clock() - desk.begun
    cost = monthly_cost(scheme, asked, seconds=seconds, kept=kept or counts.stored_bytes)
    yield "cost_dollars_per_month", (), cost
    learned = {
        "kept_bytes": kept,
        "load_bandwidth_bytes_per_second": worth.bandwidth,
        "store_latency_seconds": worth.latency,
        "prefill_tokens_per_second": worth.speed,
    }
    yield from ((name, (), value) for name, value in learned.items() if value is not None)
