"""What the runtime tells about itself: the `/status` document and the metrics."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kindling_runtime import clock
from kindling_runtime.contract import (
    CONTRACT_VERSION,
    CacheReason,
    CacheStatus,
    EngineFacts,
    EngineStatus,
    Evidence,
    LaunchPlan,
    Phase,
    PluginState,
    PluginStatus,
    Status,
    Traffic,
)
from kindling_runtime.facts import Facts
from kindling_runtime.state import EngineState


def status(
    plan: LaunchPlan,
    facts: Facts,
    *,
    models_answers: int | None = None,
    told: EngineFacts | None = None,
) -> Status:
    """The status document of this moment; `models_answers` and `told` the engine itself tells."""
    state = facts.state
    return Status(
        contract_version=CONTRACT_VERSION,
        runtime_version=facts.version,
        phase=state.phase,
        since=clock.rfc3339(state.since),
        deadline=_moment(facts.deadline),
        reason=state.reason,
        message=state.message,
        ready=state.ready,
        alive=state.alive,
        model=plan.model,
        engine=_engine(facts),
        evidence=Evidence(
            first_token_seconds=facts.first_token_seconds,
            last_token_at=_moment(state.last_token),
            source=state.source,
            canaries=facts.canaries,
            misses=state.misses,
            last_miss=state.last_miss,
        ),
        drain=state.step,
        expected=plan.expected,
        models_answers=models_answers,
        group=facts.group,
        facts=_both(facts.engine, told),
        traffic=facts.traffic,
        plugins=facts.plugins,
        preflight=facts.preflight,
        cache=facts.cache,
    )


def _engine(facts: Facts) -> EngineStatus:
    state = facts.state
    return EngineStatus(
        pid=facts.engine_pid if state.engine is EngineState.RUNNING else None,
        started_at=_moment(facts.engine_started),
        read_bytes=facts.loaded_bytes if state.phase is Phase.LOADING else None,
    )


def _both(workers: EngineFacts | None, told: EngineFacts | None) -> EngineFacts | None:
    """What the workers wrote, beside what the engine's metrics tell once it serves."""
    if told is None or workers is None:
        return told
    return msgspec.structs.replace(
        told, attention_backends=workers.attention_backends, memory=workers.memory
    )


class Metrics(Collector):
    """The runtime's own metrics, computed when they are asked for. vLLM's stay on its own port."""

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """The Prometheus text exposition of this moment."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry at each scrape."""
        facts = self._facts()
        state = facts.state
        yield _info(facts.version)
        yield _phase(state.phase)
        yield _gauge("ready", "1 while clients may be sent to this pod.", float(state.ready))
        yield _gauge("alive", "0 once only a restart can help.", float(state.alive))
        if facts.first_token_seconds is not None:
            yield _gauge(
                "first_token_seconds",
                "Time from process start to the first generated token.",
                facts.first_token_seconds,
            )
        if facts.engine_launch_seconds is not None:
            yield _gauge(
                "engine_launch_seconds",
                "Time from process start to the start of the engine.",
                facts.engine_launch_seconds,
            )
        yield _counter("canaries", "Attempts at a one-token request of our own.", facts.canaries)
        if facts.traffic is not None:
            yield _gauge("requests_active", "Requests that run now.", facts.traffic.active)
            yield _requests(facts.traffic)
        if facts.plugins:
            yield _plugins(facts.plugins)
        if facts.cache is not None:
            yield _cache(facts.cache)
        if facts.group is not None:
            strangers = facts.group.strangers
            yield _counter("group_strangers", "Words for a pod, not believed.", strangers)
        yield _gauge("token_misses", "Looks in a row that found no token.", state.misses)
        yield _counter("orphans_reaped", "Inherited child processes reaped.", facts.orphans)
        yield _counter(
            "leftover_bytes_removed",
            "Shared memory of earlier engines that was freed at start.",
            facts.leftover_bytes,
        )


def _moment(at: float | None) -> str | None:
    return None if at is None else clock.rfc3339(at)


def _info(version: str) -> Metric:
    info = GaugeMetricFamily(
        "kindling_runtime_info", "Versions, as labels.", labels=["version", "contract"]
    )
    info.add_metric([version, str(CONTRACT_VERSION)], 1)
    return info


def _phase(present: Phase) -> Metric:
    phases = GaugeMetricFamily(
        "kindling_runtime_phase", "1 for the pod's present phase.", labels=["phase"]
    )
    for phase in Phase:
        phases.add_metric([phase.value], float(phase is present))
    return phases


def _requests(traffic: Traffic) -> Metric:
    requests = CounterMetricFamily(
        "kindling_runtime_requests",
        "Requests that came to the serving port, by how they ended.",
        labels=["outcome"],
    )
    for outcome in ("finished", "left", "cut", "refused", "denied"):
        requests.add_metric([outcome], getattr(traffic, outcome))
    return requests


def _plugins(plugins: Sequence[PluginStatus]) -> Metric:
    on = GaugeMetricFamily(
        "kindling_runtime_plugin_on",
        "1 where a correction of vLLM is in place in every process of the engine.",
        labels=["plugin"],
    )
    for each in plugins:
        on.add_metric([each.name], float(each.state is PluginState.ON))
    return on


def _cache(cache: CacheStatus) -> Metric:
    ready = GaugeMetricFamily(
        "kindling_runtime_cache_ready",
        "1 while the object-store tier of the KV cache is in use, by the reason why or why not.",
        labels=["reason"],
    )
    for reason in CacheReason:
        ready.add_metric([reason], float(cache.ready and cache.reason is reason))
    return ready


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"kindling_runtime_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"kindling_runtime_{name}", text, value=value)
