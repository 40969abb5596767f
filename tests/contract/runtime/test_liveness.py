"""A hung or dead engine is found within the stated bound; a mended one is kept."""

import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods

from kindling_runtime.contract import LIVE_PATH, READY_PATH, ExitCode, Phase, Reason

# Interval, one unanswered glance at the counters, one unanswered token; then the time until it is
# given up, with room for a busy machine.
FOUND_WITHIN = 1 + 1 + 1
GIVEN_UP_WITHIN = FOUND_WITHIN + 3 + 10


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_a_wedged_engine_loses_readiness_then_liveness_and_is_replaced(
    model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model, switches=["--ignore-sigterm"], probe=pods.QUICK)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        await pod.fault(wedged=True)
        wedged = time.monotonic()

        stalled = await pod.reach(Phase.STALLED)
        assert await pod.check(READY_PATH) == 503
        assert await pod.check(LIVE_PATH) == 200
        assert stalled.message == (
            "the engine showed no token in 2 looks in a row: "
            "it did not answer a one-token request within 1 s"
        )

        # It ignores SIGTERM, so that its grace period is time enough to look.
        failed = await pod.reach(Phase.FAILED)
        assert await pod.check(LIVE_PATH) == 503
        assert time.monotonic() - wedged < GIVEN_UP_WITHIN
        assert failed.message.startswith("the engine is wedged: it runs and generated no token for")

        assert await pod.exit_status() == ExitCode.ENGINE
        assert (pod.reason, pod.message) == (Reason.WEDGED, failed.message)


async def test_an_engine_that_is_stopped_by_a_signal_is_found_as_well(
    model: Path, tmp_path: Path
) -> None:
    async with pods.running(pods.plan_for(model, probe=pods.QUICK), tmp_path) as pod:
        status = await pod.reach(Phase.READY)
        assert status.engine.pid is not None
        os.kill(status.engine.pid, signal.SIGSTOP)

        assert await pod.exit_status() == ExitCode.ENGINE
        assert pod.message.startswith("the engine is wedged: it runs and generated no token for")
        assert pod.descendants() == {}


async def test_an_engine_that_generates_again_is_kept(model: Path, tmp_path: Path) -> None:
    patient = msgspec.structs.replace(pods.QUICK, wedged_seconds=3600)
    async with pods.running(pods.plan_for(model, probe=patient), tmp_path) as pod:
        before = await pod.reach(Phase.READY)
        await pod.fault(wedged=True)
        await pod.reach(Phase.STALLED)
        await pod.fault(wedged=False)
        after = await pod.reach(Phase.READY)

        assert after.engine.pid == before.engine.pid
        assert await pod.ready()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "SIGKILL",
            "the engine was killed by SIGKILL, "
            "which is how the kernel ends a process over its memory limit",
        ),
        ("SIGSEGV", "the engine was killed by SIGSEGV and logged no error"),
    ],
)
async def test_an_engine_that_a_signal_kills(
    model: Path, tmp_path: Path, name: str, message: str
) -> None:
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        await pod.reach(Phase.READY)
        await pod.fault(signal=name)

        assert await pod.exit_status() == ExitCode.ENGINE
        assert pod.message == message


async def test_an_engine_that_exits_says_why(model: Path, tmp_path: Path) -> None:
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        await pod.reach(Phase.READY)
        await pod.fault(exit=3, says="RuntimeError: NCCL error")

        assert await pod.exit_status() == ExitCode.ENGINE
        assert pod.message == "the engine exited with status 3: RuntimeError: NCCL error"


async def test_probes_are_answered_while_nobody_reads_the_log(model: Path, tmp_path: Path) -> None:
    """The engine's output is not forwarded by the thread that answers the kubelet."""
    plan = pods.plan_for(model, switches=["--chatter"])
    reader, writer = os.pipe()
    try:
        async with pods.running(plan, tmp_path, stdout=writer) as pod:
            await pod.reach(Phase.LOADING, Phase.READY)
            await asyncio.sleep(1)

            assert await pod.check(LIVE_PATH) == 200
    finally:
        os.close(reader)
        os.close(writer)
