"""Ready means a token, and stays so on cheap evidence: the real runtime over a stand-in engine."""

import asyncio
import os
import re
import signal
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime.contract import (
    LIVE_PATH,
    MODELS_PATH,
    READY_PATH,
    STARTED_PATH,
    EvidenceSource,
    ExitCode,
    Phase,
    Reason,
)

NO_TIME_TO_LOAD = msgspec.structs.replace(pods.QUICK, startup_seconds=12, stuck_seconds=9)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_green_health_is_not_ready_and_a_token_is(model: Path, tmp_path: Path) -> None:
    plan = pods.plan_for(model, switches=["--health-while-loading", "--load-seconds", "3"])
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.LOADING)
        await health_is_green(pod)

        assert await pod.check(READY_PATH) == 503
        assert await pod.check(LIVE_PATH) == 200

        status = await pod.reach(Phase.READY)
        assert await pod.check(READY_PATH) == 200
        assert status.reason is Reason.TOKEN_GENERATED
        assert status.evidence.source is EvidenceSource.CANARY
        assert status.evidence.first_token_seconds is not None
        assert status.evidence.first_token_seconds > 3


async def test_whether_it_has_started_is_answered_with_the_first_token_and_ever_after(
    model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model, switches=["--load-seconds", "2"], probe=pods.QUICK)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.LOADING)
        asked = asyncio.create_task(pod.check(STARTED_PATH))
        await asyncio.sleep(0.5)
        assert (await pod.status()).phase is Phase.LOADING
        assert not asked.done()

        assert await asked == 200
        assert (await pod.status()).phase is Phase.READY

        await pod.fault(wedged=True)
        await pod.reach(Phase.STALLED)
        assert await pod.check(STARTED_PATH) == 200


async def test_whether_it_has_started_is_denied_when_the_start_has_failed(
    model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model, switches=["--wedged"], probe=NO_TIME_TO_LOAD)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.LOADING)
        asked = asyncio.create_task(pod.check(STARTED_PATH))

        assert await pod.exit_status() == ExitCode.ENGINE
        assert await asked == 503
        assert pod.reason is Reason.START_DEADLINE_EXCEEDED


async def test_an_engine_that_never_generates_is_given_up_at_the_start_deadline(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.LOAD,
        "never a token",
        "Failed `StartDeadlineExceeded` after `startupSeconds`, or `stuckSeconds` after the last"
        " thing that it read or wrote; exit 70, names the last answer",
    )
    fault.begins()
    plan = pods.plan_for(model, switches=["--wedged"], probe=NO_TIME_TO_LOAD)
    async with pods.running(plan, tmp_path) as pod:
        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(12 + 9 + pods.ROOM, "exit 70")
        assert pod.message == (
            "the engine generated no token within 12 s of start, and neither reads nor writes for"
            " 9 s (it did not answer a one-token request within 1 s);"
            " see its log, or allow it more time to load"
        )


async def test_an_engine_that_is_stopped_while_it_loads_is_found_and_ended(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.LOAD,
        "SIGSTOP of a loading engine, as of one whose volume hangs",
        "Failed `Stuck` `stuckSeconds` + 2 s later, exit 70",
    )
    limits = msgspec.structs.replace(pods.QUICK, startup_seconds=600, stuck_seconds=3)
    plan = pods.plan_for(model, switches=["--wedged"], probe=limits)
    async with pods.running(plan, tmp_path) as pod:
        status = await pod.reach(Phase.LOADING)
        assert status.engine.pid is not None
        fault.begins()
        os.kill(status.engine.pid, signal.SIGSTOP)

        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(3 + 2 + 2 + pods.ROOM, "exit 70")
        assert pod.reason is Reason.STUCK
        assert re.fullmatch(
            r"the engine stopped while it loads: for \d+ s its processes read nothing, wrote"
            r" nothing and computed nothing \(.+\); see its log, and whether the volume of the"
            r" weights answers",
            pod.message,
        )


async def test_what_the_engine_answers_instead_of_a_token_is_told(
    model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model)
    plan = msgspec.structs.replace(
        plan, model=msgspec.structs.replace(plan.model, served_name="flint")
    )
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.LOADING)
        assert await answer_instead(pod) == (
            'it answered HTTP 404: {"error":{"message":"The model `flint` does not exist."}}'
        )
        assert await pod.check(READY_PATH) == 503


async def test_an_engine_that_dies_while_loading_says_why(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.LOAD, "exits while it loads", "exit 70 with the useful line of its log")
    fault.begins()
    said = "(EngineCore pid=9) ERROR 11-29 ValueError: To serve at least one request, add memory"
    plan = pods.plan_for(model, switches=["--exit-while-loading", "1", "--says", said])
    async with pods.running(plan, tmp_path) as pod:
        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(15 + pods.ROOM, "exit 70")
        assert pod.message == (
            "the engine exited with status 1: ValueError: To serve at least one request, add memory"
        )
        assert said in pod.log


@pytest.mark.parametrize(
    ("pace", "tokens"), [("0.1", 60), ("2.5", 4)], ids=["between two looks", "not at each look"]
)
async def test_no_canary_is_sent_while_clients_are_served(
    pace: str, tokens: int, model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model, switches=["--seconds-per-token", pace])
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(tokens)
        await evidence_from(pod, EvidenceSource.COUNTERS)
        before = (await pod.status()).evidence.canaries
        await asyncio.sleep(3 * plan.probe.interval_seconds)
        status = await pod.status()

        assert status.evidence.canaries == before
        assert status.evidence.source is EvidenceSource.COUNTERS

        await client
        idle = await evidence_from(pod, EvidenceSource.CANARY)
        assert idle > before


@pytest.mark.parametrize(
    ("switches", "priority"), [((), None), (("--scheduling-policy=priority",), 1_000_000)]
)
async def test_a_canary_goes_behind_clients_where_the_engine_knows_priorities(
    model: Path, tmp_path: Path, switches: tuple[str, ...], priority: int | None
) -> None:
    async with pods.running(pods.plan_for(model, switches=switches), tmp_path) as pod:
        await pod.reach(Phase.READY)

        assert (await pod.seen())["last"].get("priority") == priority


async def test_status_counts_who_asked_the_engine_for_its_models(
    model: Path, tmp_path: Path
) -> None:
    """The runtime's own requests for tokens are none of them."""
    async with pods.running(pods.plan_for(model), tmp_path) as pod:
        await pod.reach(Phase.READY)
        await answers(pod, 0)
        for _ in range(3):
            async with pod.session.get(pod.engine + MODELS_PATH) as response:
                assert response.status == 200
        await answers(pod, 3)


async def answers(pod: pods.Pod, count: int) -> None:
    """Wait until the engine's count has been read."""
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            if (await pod.status()).models_answers == count:
                return
            await asyncio.sleep(0.05)


async def health_is_green(pod: pods.Pod) -> None:
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            try:
                async with pod.session.get(f"{pod.engine}/health") as response:
                    assert response.status == 200
                    return
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)


async def evidence_from(pod: pods.Pod, source: EvidenceSource) -> int:
    """Wait until the last token was seen through `source`; returns the canaries sent by then."""
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            evidence = (await pod.status()).evidence
            if evidence.source is source:
                return evidence.canaries
            await asyncio.sleep(0.05)


async def answer_instead(pod: pods.Pod) -> str:
    """Wait until the engine accepts connections, and return what it answered to a look."""
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            miss = (await pod.status()).evidence.last_miss
            if miss not in {None, "it does not accept connections"}:
                return str(miss)
            await asyncio.sleep(0.05)
