"""A runtime that was stopped for a while, and goes on: what it did not see is not held against the
engine."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime.contract import Drain, ExitCode, Phase, Probe

PROBE = Probe(startup_seconds=45, token_seconds=3, interval_seconds=1, wedged_seconds=12)
STOPPED = PROBE.wedged_seconds + 2


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_an_engine_that_came_back_while_nobody_looked_is_kept(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        "the runtime is stopped (SIGSTOP) after a miss, for longer than `wedgedSeconds`",
        "looks anew before it judges; the engine is kept",
    )
    async with pods.running(pods.plan_for(model, probe=PROBE), tmp_path) as pod:
        await pod.reach(Phase.READY)
        await pod.fault(wedged=True)
        await pod.reach(Phase.STALLED)
        pod.process.send_signal(signal.SIGSTOP)
        await pod.fault(wedged=False)
        await asyncio.sleep(STOPPED)
        fault.begins()
        pod.process.send_signal(signal.SIGCONT)
        await pod.reach(Phase.READY)
        fault.within(2 * PROBE.token_seconds + pods.ROOM, "ready")
        assert "the runtime stood still for" in pod.log
        assert "Wedged" not in pod.log


async def test_a_stop_in_the_middle_of_a_drain_cuts_no_stream(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "the runtime is stopped (SIGSTOP) while a stream finishes",
        "the stream is whole, exit 0",
    )
    drain = Drain(endpoint_seconds=1, stream_seconds=60, grace_seconds=10)
    plan = pods.plan_for(model, switches=("--seconds-per-token", "0.05"), drain=drain)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(100)
        pod.terminate()
        await pod.reach(Phase.DRAINING)
        pod.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(6)
        fault.begins()
        pod.process.send_signal(signal.SIGCONT)
        assert pods.finish_reason(await client) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(60 + pods.ROOM, "exit 0")
