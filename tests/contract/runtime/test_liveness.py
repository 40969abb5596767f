"""A hung or dead engine is found within the stated bound; a mended one is kept."""

import array
import asyncio
import fcntl
import os
import signal
import termios
from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_operator.observe import runtimes
from kindling_runtime.contract import LIVE_PATH, READY_PATH, Drain, ExitCode, Phase, Reason

# Interval, one unanswered glance at the counters, one unanswered token; each look once more for the
# second; then the time until it is given up, and that of an engine to end.
FOUND_WITHIN = 1 + 1 + 1
UNREADY_WITHIN = 2 * FOUND_WITHIN + pods.ROOM
GIVEN_UP_WITHIN = FOUND_WITHIN + 3 + pods.ROOM
ENDED_WITHIN = 2 + 5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_a_wedged_engine_loses_readiness_then_liveness_and_is_replaced(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        "accepts requests and answers none",
        "Stalled after two looks, then Failed `Wedged` after `wedgedSeconds`, exit 70",
    )
    plan = pods.plan_for(model, switches=["--ignore-sigterm"], probe=pods.QUICK)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        fault.begins()
        await pod.fault(wedged=True)

        stalled = await pod.reach(Phase.STALLED)
        fault.within(UNREADY_WITHIN, "not ready")
        assert await pod.check(READY_PATH) == 503
        assert await pod.check(LIVE_PATH) == 200
        assert stalled.message == (
            "the engine showed no token in 2 looks in a row: "
            "it did not answer a one-token request within 1 s"
        )

        # It ignores SIGTERM, so that its grace period is time enough to look.
        failed = await pod.reach(Phase.FAILED)
        assert await pod.check(LIVE_PATH) == 503
        fault.within(GIVEN_UP_WITHIN, "given up")
        assert failed.message.startswith("the engine is wedged: it runs and generated no token for")

        assert await pod.exit_status() == ExitCode.ENGINE
        assert (pod.reason, pod.message) == (Reason.WEDGED, failed.message)
        assert pod.last_words == f"{pod.reason}: {pod.message}", "no list: nothing was refused"
        fault.within(GIVEN_UP_WITHIN + ENDED_WITHIN, "exit 70")


async def test_a_rank_that_hangs_is_found_although_another_serves(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """What runs is the evidence: no request is added to it."""
    fault.row(
        Kind.ENGINE,
        "one of two data-parallel ranks hangs with requests running, the other serves",
        "Stalled, then `Wedged`, names the rank and its requests; exit 70",
    )
    probe = msgspec.structs.replace(pods.QUICK, token_seconds=5, wedged_seconds=16)
    paced = ("--ranks", "2", "--seconds-per-token", "0.05")
    async with pods.running(pods.plan_for(model, switches=paced, probe=probe), tmp_path) as pod:
        await pod.reach(Phase.READY)
        clients = [await pod.streaming(100_000) for _ in range(4)]
        before = (await pod.status()).evidence.canaries
        fault.begins()
        await pod.fault(wedged=True, rank=1)

        stalled = await pod.reach(Phase.STALLED)
        fault.within(1 + 6 + 2 * (5 + 6) + pods.ROOM, "not ready")
        assert stalled.message == (
            "the engine showed no token in 2 looks in a row: "
            "engine 1 has 2 requests and none got a token for 5 s"
        )
        assert stalled.evidence.canaries == before
        for client in clients:
            client.cancel()

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(1 + 6 + 5 + 6 + 16 + pods.ROOM + ENDED_WITHIN, "exit 70")
        assert pod.reason is Reason.WEDGED


async def test_an_engine_that_is_stopped_by_a_signal_is_found_as_well(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.ENGINE, "SIGSTOP of the whole engine", "Failed `Wedged`, killed, exit 70")
    async with pods.running(pods.plan_for(model, probe=pods.QUICK), tmp_path) as pod:
        status = await pod.reach(Phase.READY)
        assert status.engine.pid is not None
        fault.begins()
        os.kill(status.engine.pid, signal.SIGSTOP)

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(GIVEN_UP_WITHIN + ENDED_WITHIN, "exit 70")
        assert pod.message.startswith("the engine is wedged: it runs and generated no token for")
        assert pod.descendants() == {}


async def test_the_operator_is_answered_while_the_engines_server_is_stopped(
    model: Path, tmp_path: Path
) -> None:
    """Before the first look has missed as well, when the pod still counts as ready."""
    slow = msgspec.structs.replace(pods.PATIENT, token_seconds=45, wedged_seconds=600)
    async with pods.running(pods.plan_for(model, probe=slow), tmp_path) as pod:
        status = await pod.reach(Phase.READY)
        assert status.engine.pid is not None
        os.kill(status.engine.pid, signal.SIGSTOP)

        for _ in range(3):
            # As the operator asks, which gives up after READ_SECONDS.
            assert set(await runtimes.read({"uid": pod.runtime})) == {"uid"}
        assert await pod.check(READY_PATH) == 200
        assert await pod.check(LIVE_PATH) == 200
        assert await pod.metric("kindling_runtime_ready") == 1


async def test_an_engine_that_generates_again_is_kept(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.ENGINE, "generates again", "Ready, the same process")
    patient = msgspec.structs.replace(pods.QUICK, wedged_seconds=3600)
    async with pods.running(pods.plan_for(model, probe=patient), tmp_path) as pod:
        before = await pod.reach(Phase.READY)
        await pod.fault(wedged=True)
        await pod.reach(Phase.STALLED)
        fault.begins()
        await pod.fault(wedged=False)
        after = await pod.reach(Phase.READY)
        fault.within(FOUND_WITHIN + pods.ROOM, "ready again")

        assert after.engine.pid == before.engine.pid
        assert await pod.ready()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SIGKILL", "the engine was killed by SIGKILL"),  # and whether the kernel did, if it says
        ("SIGSEGV", "the engine was killed by SIGSEGV and logged no error"),
    ],
    ids=("SIGKILL", "SIGSEGV"),
)
async def test_an_engine_that_a_signal_kills(
    model: Path, tmp_path: Path, name: str, message: str, fault: Fault
) -> None:
    fault.row(Kind.ENGINE, f"{name} to the engine", "exit 70, names the signal")
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        await pod.reach(Phase.READY)
        fault.begins()
        await pod.fault(signal=name)

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(pods.ROOM, "exit 70")
        assert pod.message.startswith(message)


async def test_an_engine_that_exits_says_why(model: Path, tmp_path: Path, fault: Fault) -> None:
    fault.row(Kind.ENGINE, "exits by itself", "exit 70 with the useful line of its log")
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        await pod.reach(Phase.READY)
        fault.begins()
        await pod.fault(exit=3, says="RuntimeError: NCCL error")

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(pods.ROOM, "exit 70")
        assert pod.message == "the engine exited with status 3: RuntimeError: NCCL error"


async def test_probes_are_answered_while_nobody_reads_the_log(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """The engine's output is not forwarded by the thread that answers the kubelet."""
    fault.row(Kind.ENGINE, "logs without end and nobody reads", "probes are answered all the same")
    plan = pods.plan_for(model, switches=["--chatter"])
    reader, writer = os.pipe()
    try:
        async with pods.running(plan, tmp_path, stdout=writer) as pod:
            await pod.reach(Phase.LOADING, Phase.READY)
            await asyncio.sleep(1)

            fault.begins()
            assert await pod.check(LIVE_PATH) == 200
            fault.within(pods.ROOM, "answered")
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_pod_whose_log_nobody_reads_answers_and_leaves(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """Neither stream: the runtime's own lines would wait for a reader, too."""
    fault.row(
        Kind.ENGINE,
        "nobody reads the log any more, neither stdout nor stderr, SIGTERM",
        "probes are answered, and the pod leaves in its time",
    )
    drain = Drain(endpoint_seconds=1, stream_seconds=10, grace_seconds=2)
    plan = pods.plan_for(model, drain=drain, switches=["--chatter"])
    both = ("sh", "-c", 'exec "$@" 2>&1', "sh")
    reader, writer = os.pipe()
    try:
        async with pods.running(plan, tmp_path, prefix=both, stdout=writer) as pod:
            await _read_until_full(pod, reader)
            fault.begins()
            pod.process.terminate()
            await pod.reach(Phase.DRAINING)
            assert await pod.check(LIVE_PATH) == 200
            assert await pod.exit_status() in {ExitCode.CLEAN, ExitCode.ENGINE}
            fault.within(1 + 10 + 2 + pods.ROOM, "exit")
    finally:
        os.close(reader)
        os.close(writer)


async def _read_until_full(pod: pods.Pod, reader: int) -> None:
    """Read the log until the pod is ready, and no more: then wait until the pipe takes nothing."""
    ready = asyncio.create_task(pod.reach(Phase.READY))
    while not ready.done():
        await asyncio.to_thread(os.read, reader, 1 << 16)
    room = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
    waiting = array.array("i", [0])

    def full() -> bool:
        fcntl.ioctl(reader, termios.FIONREAD, waiting)
        return waiting[0] > room - 4096

    await pods.until(full)
