"""Leaving without cutting a stream: the real runtime over a stand-in engine."""

import asyncio
import os
import time
from pathlib import Path

import aiohttp
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime import contract
from kindling_runtime.contract import Drain, DrainStep, ExitCode, Phase

PACED = ("--seconds-per-token", "0.05")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_a_stream_in_flight_is_finished_and_the_exit_is_clean(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "SIGTERM with a stream in flight, without a front",
        "not ready at once, late requests are served, the stream is whole, exit 0",
    )
    async with pods.running(pods.plan_for(model, switches=PACED), tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(80)
        fault.begins()
        pod.terminate()
        draining = await pod.reach(Phase.DRAINING)

        assert not await pod.ready()
        fault.within(1 + pods.ROOM, "not ready")
        assert draining.drain is DrainStep.ENDPOINTS
        assert draining.deadline is not None
        # An endpoint that has not heard yet still sends a request, and it is served.
        late = await pod.stream(1)
        assert pods.finish_reason(late) == "length"

        events = await client
        assert len(events) == 82  # tokens, the finish and [DONE]
        assert pods.finish_reason(events) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + 10 + 2 + pods.ROOM, "exit 0")
        assert pod.message.startswith("the engine ended cleanly ")
        assert pod.message.endswith(" s after SIGTERM, within its 10 s")


async def test_the_engine_is_told_only_after_endpoints_had_their_time(
    model: Path, tmp_path: Path
) -> None:
    drain = Drain(endpoint_seconds=3, stream_seconds=5, grace_seconds=2)
    async with pods.running(pods.plan_for(model, drain=drain), tmp_path) as pod:
        await pod.reach(Phase.READY)
        asked = time.monotonic()
        pod.terminate()
        await pod.reach(Phase.DRAINING)
        while time.monotonic() - asked < 2.5:
            assert pods.finish_reason(await pod.stream(1)) == "length"
            await asyncio.sleep(0.1)

        assert await pod.exit_status() == ExitCode.CLEAN
        assert time.monotonic() - asked >= 3


async def test_a_second_sigterm_waits_for_streams_but_not_for_endpoints(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "SIGTERM twice with a stream, without a front",
        "the wait for endpoints ends, the stream does not: whole; exit 0",
    )
    drain = Drain(endpoint_seconds=3600, stream_seconds=10, grace_seconds=2)
    plan = pods.plan_for(model, switches=PACED, drain=drain)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(40)
        pod.terminate()
        await pod.reach(Phase.DRAINING)
        fault.begins()
        pod.terminate()

        assert pods.finish_reason(await client) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(10 + 2 + pods.ROOM, "exit 0")


async def test_a_stream_that_needs_longer_than_planned_is_cut_and_the_message_says_so(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "a stream needs longer than planned, without a front",
        "vLLM cuts it after `streamSeconds`; exit 0, the message says so",
    )
    drain = Drain(endpoint_seconds=0, stream_seconds=1, grace_seconds=10)
    plan = pods.plan_for(model, switches=PACED, drain=drain)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(2000)
        fault.begins()
        pod.terminate()

        assert pods.finish_reason(await client) == "abort"
        fault.within(1 + pods.ROOM, "cut")
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + pods.ROOM, "exit 0")
        assert pod.message.endswith("; streams that needed more than 1 s were cut")


async def test_an_engine_that_does_not_stop_is_killed_with_all_it_started(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "the engine ignores SIGTERM",
        "killed with all its children after `streamSeconds` + `graceSeconds`, exit 70, says that"
        " streams were cut",
    )
    drain = Drain(endpoint_seconds=0, stream_seconds=1, grace_seconds=1)
    plan = pods.plan_for(model, switches=["--ignore-sigterm", "--orphan"], drain=drain)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        family = pod.descendants()
        assert len(family) == 2
        fault.begins()
        pod.terminate()

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(1 + 1 + pods.ROOM, "exit 70")
        assert pod.message == (
            "the engine still ran 2 s after SIGTERM and was killed, so running streams were cut; "
            "allow a longer drain"
        )
        assert not any(pods.is_running(pid) for pid in family)


async def test_an_engine_that_dies_while_it_drains_is_no_clean_exit(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """vLLM ends with status 0 also when its engine core died under it."""
    fault.row(
        Kind.DRAIN,
        "the engine dies with status 0 while it drains",
        "exit 70, says that streams were cut",
    )
    async with pods.running(pods.plan_for(model, switches=PACED), tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(2000)
        pod.terminate()
        await pod.printed("running streams have 10 s")
        fault.begins()
        await pod.fault(exit=0, says="EngineDeadError: EngineCore encountered an issue.")

        with pytest.raises(aiohttp.ClientError):
            await client
        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(pods.ROOM, "exit 70")
        assert pod.message == (
            "running streams were cut, because the engine exited with status 0: "
            "EngineDeadError: EngineCore encountered an issue"
        )


async def test_sigterm_while_loading_stops_at_once(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.DRAIN, "SIGTERM during a load", "exit 0 at once, nothing is waited for")
    drain = Drain(endpoint_seconds=3600, stream_seconds=3600, grace_seconds=20)
    plan = pods.plan_for(model, switches=["--load-seconds", "3600"], drain=drain)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.LOADING)
        await pod.printed("standin: process")
        fault.begins()
        pod.terminate()

        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(pods.ROOM, "exit 0")
        assert pod.message == "the pod was told to stop before the first token, so nothing was cut"


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.4])
async def test_sigterm_at_any_moment_of_the_start_is_heard(
    model: Path, tmp_path: Path, seconds: float, fault: Fault
) -> None:
    fault.row(Kind.DRAIN, f"SIGTERM {seconds:g} s after the first handler", "exit 0 at once")
    plan = pods.plan_for(model, switches=["--load-seconds", "3600"])
    async with pods.running(plan, tmp_path) as pod:
        await pod.minds_sigterm()
        await asyncio.sleep(seconds)
        fault.begins()
        pod.terminate()

        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(2 + pods.ROOM, "exit 0")
        assert pod.message == "the pod was told to stop before the first token, so nothing was cut"


async def test_sigterm_before_there_is_a_handler_waits_for_it(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """As process 1 a signal without a handler would be lost for good."""
    fault.row(Kind.DRAIN, "SIGTERM before any handler exists", "kept until there is one; exit 0")
    plan, log = tmp_path / "plan.json", tmp_path / "termination-log"
    os.mkfifo(plan)
    log.touch()
    process = await asyncio.create_subprocess_exec(
        *(pods.RUNTIME, "serve", "--plan", plan, "--termination-log", log)
    )
    async with asyncio.timeout(pods.PATIENCE):
        with await asyncio.to_thread(plan.open, "wb") as orders:
            # It is reading its plan now, long before it could do anything about a signal.
            fault.begins()
            process.terminate()
            orders.write(contract.encode(pods.plan_for(model)))

        assert await process.wait() == ExitCode.CLEAN
        fault.within(pods.ROOM, "exit 0")
    assert log.read_text().startswith(
        "StoppedWhileLoading: the pod was told to stop before the first token"
    )
