"""SIGTERM, and deaths, at every moment of a pod's life: it always ends, and says how."""

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import aiohttp
import pytest
from tests.support.engine import pod as pods

from kindling_runtime.contract import Drain, ExitCode, Front, Phase, Reason

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

STEP = 0.04
MOMENTS = [number * STEP for number in range(60)]
"""From the first handler to long after the engine was started."""
LIVES = int(os.environ.get("KINDLING_SWEEP_LIVES", "60"))
DRAIN = Drain(endpoint_seconds=2, stream_seconds=20, grace_seconds=5)


@pytest.mark.parametrize("phase", range(4))
async def test_sigterm_at_each_moment_of_a_start(phase: int, tmp_path: Path) -> None:
    for number, seconds in enumerate(MOMENTS[phase::4]):
        (folder := tmp_path / str(number)).mkdir()
        switches = ["--load-seconds", random.choice(["0", "1", "3600"])]
        plan = pods.plan_for(pods.weights(folder / "model"), switches=switches, drain=DRAIN)
        async with pods.running(plan, folder) as pod:
            await asyncio.sleep(seconds * (1 + phase))
            pod.terminate()
            status = await pod.exit_status()
            # Before the runtime's own code runs a signal does what it does by default.
            assert status in {ExitCode.CLEAN, -signal.SIGTERM}, (seconds, pod.log)
            if status == ExitCode.CLEAN:
                assert pod.reason in {Reason.STOPPED_WHILE_LOADING, Reason.DRAINED}, pod.log


@pytest.mark.parametrize("fronted", [True, False])
async def test_sigterm_and_deaths_in_any_order(fronted: bool, tmp_path: Path) -> None:
    seed = int(os.environ.get("KINDLING_SOAK_SEED", str(random.randrange(10_000))))
    chance = random.Random(seed)
    front = Front(quiet_seconds=1, settle_seconds=0) if fronted else None
    for number in range(LIVES):
        (folder := tmp_path / str(number)).mkdir()
        plan = pods.plan_for(
            pods.weights(folder / "model"),
            switches=("--seconds-per-token", "0.02"),
            drain=DRAIN,
            front=front,
        )
        async with pods.running(plan, folder) as pod:
            await pod.reach(Phase.READY)
            client = await pod.streaming(chance.randrange(1, 150))
            kills = await _harm(pod, chance)
            status = await pod.exit_status()
            events: list[str] = []
            with contextlib.suppress(aiohttp.ClientError, pods.RefusedError):
                events = await client
            what = (seed, number, kills, pod.log)
            whole = bool(events) and events[-1] == "[DONE]"
            assert pod.reason is not None, what
            assert "Traceback" not in pod.log, what
            if not kills:
                assert status == ExitCode.CLEAN, what
                assert whole, what
                assert pods.finish_reason(events) == "length", what
            elif not whole:
                # Nobody says that all was well.
                assert status != ExitCode.CLEAN or " cut" in pod.message, what


async def _harm(pod: pods.Pod, chance: random.Random) -> bool:
    """Some signals, some of them deadly; whether one was."""
    deeds = chance.sample(["term", "term", "stop", "kill"], k=chance.randrange(1, 4))
    if "term" not in deeds:
        deeds.append("term")
    for deed in deeds:
        await asyncio.sleep(chance.choice([0, 0.005, 0.05, 0.3, 1.2]))
        with contextlib.suppress(ProcessLookupError):
            if deed == "term":
                pod.terminate()
            elif deed == "stop":
                pod.process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(chance.uniform(0, 2))
                pod.process.send_signal(signal.SIGCONT)
            else:
                for pid in pod.descendants():
                    os.kill(pid, signal.SIGKILL)
    return "kill" in deeds
