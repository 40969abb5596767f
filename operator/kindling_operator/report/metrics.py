"""The operator's own metrics, declared once; the stages get small functions that count."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.process_collector import ProcessCollector

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
"""Buckets from an unchanged pass to a request that hangs."""


class Metrics:
    """Every series that the operator serves on its metrics port."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.stage_seconds = self._histogram(
            "reconcile_seconds", "Time of one stage of one pass.", ["stage"]
        )
        self.reconciles = self._counter("reconcile", "Passes by result.", ["result"])
        self.queue_depth = self._gauge("queue_depth", "Models that wait for a free worker.")
        self.last_success = self._gauge(
            "last_success_timestamp_seconds", "When a pass last ended without an error, Unix time."
        )
        self.last_event = self._gauge(
            "watch_last_event_timestamp_seconds",
            "When the watch of a kind last delivered an object, Unix time.",
            ["kind"],
        )
        self.applies = self._counter("apply", "Applies of children.", ["kind", "result"])
        self.prunes = self._counter("prune", "Children that were deleted.", ["kind"])
        self.requests = self._counter(
            "requests", "Requests to the API server, watches left out.", ["verb", "kind", "outcome"]
        )
        self.request_seconds = self._histogram(
            "request_seconds", "Time of one request to the API server.", ["verb"]
        )
        self.leading = self._gauge("leading", "1 while this process holds the Lease.")
        self.lease_watch_lag = self._gauge(
            "lease_watch_lag_seconds", "How long the watch has owed a change of the Lease."
        )
        self.loop_lag = self._gauge(
            "loop_lag_seconds", "How late the event loop woke a sleeper at the last look."
        )
        self.stale_objects = self._gauge(
            "index_stale_objects",
            "Objects of which the index has nothing, or an old version.",
            ["kind"],
        )

    def count_request(self, verb: str, kind: str, outcome: str, seconds: float) -> None:
        """For `kube.client.Kube`."""
        self.requests.labels(verb, kind, outcome).inc()
        self.request_seconds.labels(verb).observe(seconds)

    def count_apply(self, kind: str, result: str) -> None:
        """For `apply.executor`."""
        if result == "pruned":
            self.prunes.labels(kind).inc()
        else:
            self.applies.labels(kind, result).inc()

    def serve(self, port: int) -> None:
        """Serve /metrics on all addresses, from a thread of its own; 0 serves nothing."""
        if port:
            start_http_server(port, registry=self.registry)

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"kindling_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"kindling_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: Sequence[str]) -> Histogram:
        return Histogram(f"kindling_{name}", text, labels, buckets=SECONDS, registry=self.registry)
