"""The documents that the runtime serves, of a given moment."""

import dataclasses

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from tests.support.engine.plans import launch_plan

from kindling_runtime import contract, report
from kindling_runtime.contract import (
    DrainStep,
    Phase,
    PluginState,
    PluginStatus,
    Reason,
    Status,
    Traffic,
)
from kindling_runtime.facts import Facts
from kindling_runtime.state import EngineState, State

LOADING = Facts(
    version="0.1.0",
    state=State(
        phase=Phase.LOADING,
        reason=Reason.ENGINE_STARTED,
        message="the engine runs",
        since=1.0,
        engine=EngineState.RUNNING,
    ),
    deadline=600.0,
    engine_pid=7,
    engine_started=1.0,
    engine_launch_seconds=0.5,
    first_token_seconds=None,
    canaries=3,
    orphans=2,
    leftover_bytes=4096,
)
GONE = dataclasses.replace(
    LOADING,
    state=dataclasses.replace(
        LOADING.state,
        phase=Phase.DRAINING,
        engine=EngineState.GONE,
        step=DrainStep.STREAMS,
        first_token=40.0,
        last_token=50.0,
    ),
    first_token_seconds=40.0,
)


def samples(facts: Facts) -> dict[str, float]:
    """Our own metrics by name, of the present phase by its label."""
    families = text_string_to_metric_families(report.Metrics(lambda: facts).text().decode())
    return {
        "/".join([sample.name, *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("kindling_runtime_")
    }


def test_the_status_document_survives_the_way() -> None:
    status = report.status(launch_plan(), LOADING)

    assert msgspec.json.decode(msgspec.json.encode(status), type=Status) == status
    assert status.contract_version == contract.CONTRACT_VERSION
    assert (status.ready, status.alive) == (False, True)
    assert status.engine.pid == 7
    assert status.evidence.first_token_seconds is None
    assert status.drain is None


def test_an_engine_that_is_gone_has_no_process() -> None:
    status = report.status(launch_plan(), GONE)

    assert status.engine.pid is None
    assert status.engine.started_at is not None
    assert status.drain is DrainStep.STREAMS
    assert status.evidence.last_token_at is not None


def test_a_reader_passes_over_fields_that_it_does_not_know() -> None:
    document = msgspec.json.decode(msgspec.json.encode(report.status(launch_plan(), LOADING)))

    later = msgspec.json.encode(document | {"bytes": {"loaded": 1}})
    assert msgspec.json.decode(later, type=Status).phase is Phase.LOADING


def test_the_metrics_of_a_loading_pod() -> None:
    assert samples(LOADING) == {
        "kindling_runtime_info/3/0.1.0": 1,
        "kindling_runtime_phase/Starting": 0,
        "kindling_runtime_phase/Downloading": 0,
        "kindling_runtime_phase/Loading": 1,
        "kindling_runtime_phase/Ready": 0,
        "kindling_runtime_phase/Stalled": 0,
        "kindling_runtime_phase/Draining": 0,
        "kindling_runtime_phase/Stopped": 0,
        "kindling_runtime_phase/Failed": 0,
        "kindling_runtime_ready": 0,
        "kindling_runtime_alive": 1,
        "kindling_runtime_engine_launch_seconds": 0.5,
        "kindling_runtime_canaries_total": 3,
        "kindling_runtime_token_misses": 0,
        "kindling_runtime_orphans_reaped_total": 2,
        "kindling_runtime_leftover_bytes_removed_total": 4096,
    }


def test_corrections_of_vllm_are_told_with_what_keeps_one_off() -> None:
    on = PluginStatus(name="a", state=PluginState.ON, why="corrected")
    off = PluginStatus(name="b", state=PluginState.OFF, why="no SM90 GPU")
    later = PluginStatus(name="c", state=PluginState.PENDING, why="not loaded")
    facts = dataclasses.replace(LOADING, plugins=(on, off, later))

    assert report.status(launch_plan(), facts).plugins == (on, off, later)
    found = {name: value for name, value in samples(facts).items() if "plugin" in name}
    assert found == {
        "kindling_runtime_plugin_on/a": 1,
        "kindling_runtime_plugin_on/b": 0,
        "kindling_runtime_plugin_on/c": 0,
    }


def test_the_first_token_is_told_once_there_was_one() -> None:
    assert samples(GONE)["kindling_runtime_first_token_seconds"] == 40.0


def test_what_the_front_counts_is_in_the_status_and_the_metrics() -> None:
    traffic = Traffic(active=1, finished=2, left=3, cut=4, refused=5, denied=6)
    counted = dataclasses.replace(LOADING, traffic=traffic)

    assert report.status(launch_plan(), counted).traffic == traffic
    found = samples(counted)
    assert found["kindling_runtime_requests_active"] == 1
    assert {
        name.rpartition("/")[2]: value
        for name, value in found.items()
        if name.startswith("kindling_runtime_requests_total/")
    } == {"finished": 2, "left": 3, "cut": 4, "refused": 5, "denied": 6}
