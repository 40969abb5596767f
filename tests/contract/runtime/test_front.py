"""Leaving with a front: the real runtime over a stand-in engine that loads our middleware."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import openai
import pytest
from tests.support.engine import pod as pods
from tests.support.engine.rollout import roll
from tests.support.faultpage import Fault, Kind

from kindling_runtime.contract import Drain, DrainStep, ExitCode, Front, Phase, Reason

PACED = ("--seconds-per-token", "0.05")
FRONT = Front(quiet_seconds=1, settle_seconds=1)
PATIENT = Front(quiet_seconds=5, settle_seconds=5)
"""Where something must still happen while endpoints let go, on a busy machine too."""
STREAMS = 20
CHAT = "/v1/chat/completions"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


def body(tokens: int, *, stream: bool = False) -> dict[str, object]:
    return {"model": "tiny", "messages": [], "max_tokens": tokens, "stream": stream}


async def test_only_listed_routes_are_served(model: Path, tmp_path: Path) -> None:
    async with pods.running(pods.plan_for(model, front=FRONT), tmp_path) as pod:
        await pod.reach(Phase.READY)
        answers = {}
        for path in ("/v1/models", "/health", "/metrics", "/v1/secrets", "/"):
            async with pod.session.get(pod.engine + path) as response:
                answers[path] = response.status
        assert answers == {
            "/v1/models": 200,
            "/health": 200,
            "/metrics": 200,
            "/v1/secrets": 404,
            "/": 404,
        }
        async with pod.session.post(pod.engine + "/tokenize", json={}) as response:
            assert (response.status, await response.json()) == (
                404,
                {
                    "error": {
                        "message": "POST /tokenize is not served here: "
                        "use the OpenAI API below /v1.",
                        "type": "NotFoundError",
                        "param": None,
                        "code": 404,
                    }
                },
            )
        traffic = (await pod.status()).traffic
        assert traffic is not None
        assert traffic.denied == 3
        assert 'kindling_runtime_requests_total{outcome="denied"} 3.0' in await pod.metrics()


async def test_new_requests_are_refused_politely_and_running_ones_finish(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "SIGTERM with a stream in flight",
        "new requests are served until none comes, then 503 with Retry-After; the stream is whole,"
        " exit 0",
    )
    drain = Drain(endpoint_seconds=60, stream_seconds=30, grace_seconds=10)
    plan = pods.plan_for(model, switches=PACED, drain=drain, front=PATIENT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(300)
        fault.begins()
        pod.terminate()
        await pod.reach(Phase.DRAINING)
        # An endpoint that has not heard yet still sends a request: it is served, on a connection
        # that ends, so that the next one is balanced anew.
        async with pod.session.post(pod.engine + CHAT, json=body(1)) as response:
            assert (response.status, response.headers["connection"]) == (200, "close")
        # A router that asks is told.
        async with pod.session.get(pod.engine + "/health") as response:
            assert response.status == 503

        await pod.printed("new requests are refused, and 1 that run have 30 s to finish")
        fault.within(60, "first refusal")
        await is_refused(pod)
        status = await pod.status()
        assert status.drain is DrainStep.STREAMS
        assert status.traffic is not None
        assert (status.traffic.active, status.traffic.refused) == (1, 1)
        async with pod.session.get(pod.engine + "/metrics") as response:
            assert response.status == 200

        assert len(await client) == 302  # tokens, the finish and [DONE]
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(60 + 30 + 10, "exit 0")
        assert pod.reason is Reason.DRAINED
        assert pod.message.startswith("all 1 running requests finished; the engine ended cleanly ")


async def is_refused(pod: pods.Pod) -> None:
    """A request now is answered as it should be."""
    async with pod.session.post(pod.engine + CHAT, json=body(1)) as response:
        assert response.status == 503
        assert response.headers["retry-after"] == "1"
        assert response.headers["connection"] == "close"
        assert (await response.json())["error"]["message"] == (
            "This replica is being stopped and takes no more requests: send it again."
        )


async def test_endpoints_that_hold_on_are_waited_for_and_no_longer(
    model: Path, tmp_path: Path
) -> None:
    drain = Drain(endpoint_seconds=3600, stream_seconds=10, grace_seconds=10)
    plan = pods.plan_for(model, drain=drain, front=PATIENT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        pod.terminate()
        await pod.reach(Phase.DRAINING)
        told = time.monotonic()
        while time.monotonic() - told < PATIENT.settle_seconds + 2:
            assert pods.finish_reason(await pod.stream(1)) == "length"
            await asyncio.sleep(0.2)
        assert (await pod.status()).drain is DrainStep.ENDPOINTS

        assert await pod.exit_status() == ExitCode.CLEAN
        assert pod.message.startswith("no request was running; ")


async def test_a_second_sigterm_does_not_wait_for_endpoints_and_cuts_nothing(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "SIGTERM three times with a stream in flight",
        "the wait for endpoints ends, the stream is whole, exit 0",
    )
    drain = Drain(endpoint_seconds=3600, stream_seconds=20, grace_seconds=2)
    patient = Front(quiet_seconds=3600, settle_seconds=3600)
    plan = pods.plan_for(model, switches=PACED, drain=drain, front=patient)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(60)
        fault.begins()
        for _ in range(3):
            pod.terminate()
            await pod.reach(Phase.DRAINING)

        assert pods.finish_reason(await client) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(20 + 2 + pods.ROOM, "exit 0")
        assert pod.message.startswith("all 1 running requests finished; ")


async def test_a_client_that_goes_while_the_pod_leaves_is_not_said_to_have_finished(
    model: Path, tmp_path: Path
) -> None:
    drain = Drain(endpoint_seconds=1, stream_seconds=30, grace_seconds=10)
    plan = pods.plan_for(model, switches=PACED, drain=drain, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        stays, goes = await pod.streaming(200), await pod.streaming(2000)
        pod.terminate()
        await pod.printed("new requests are refused, and 2 that run have 30 s to finish")
        goes.cancel()

        assert pods.finish_reason(await stays) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        assert pod.reason is Reason.DRAINED
        assert pod.message.startswith(
            "1 of 2 running requests finished, and 1 client went before; the engine ended"
        )


async def test_what_takes_too_long_is_cut_told_and_counted(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "requests need longer than planned",
        "cut with an error event or 503 after `streamSeconds`, counted; exit 0",
    )
    drain = Drain(endpoint_seconds=0, stream_seconds=1, grace_seconds=10)
    plan = pods.plan_for(model, switches=PACED, drain=drain, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        long, short = await pod.streaming(2000), await pod.streaming(10)
        waiting = asyncio.create_task(ask(pod, 2000))
        await asyncio.sleep(0.2)
        fault.begins()
        pod.terminate()

        events = await long
        fault.within(1 + 1 + pods.ROOM, "cut")
        assert json.loads(events[-1])["error"]["code"] == 503
        assert "cut the answer short" in events[-1]
        assert await waiting == (503, "1")
        assert pods.finish_reason(await short) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + 1 + 10 + pods.ROOM, "exit 0")
        assert pod.reason is Reason.DRAIN_DEADLINE_EXCEEDED
        told = "2 of 3 running requests were cut after 1 s; the engine ended cleanly "
        assert pod.message.startswith(told)


async def ask(pod: pods.Pod, tokens: int) -> tuple[int, str | None]:
    """Status and Retry-After of a request that is no stream."""
    async with pod.session.post(pod.engine + CHAT, json=body(tokens)) as response:
        return response.status, response.headers.get("retry-after")


async def test_the_official_client_sees_a_cut_as_an_error_and_not_as_an_end(
    model: Path, tmp_path: Path
) -> None:
    drain = Drain(endpoint_seconds=0, stream_seconds=1, grace_seconds=10)
    plan = pods.plan_for(model, switches=PACED, drain=drain, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        async with openai.AsyncOpenAI(base_url=pod.engine + "/v1", api_key="none") as client:
            chunks = await client.chat.completions.create(
                model="tiny", messages=[], max_tokens=2000, stream=True
            )
            await anext(chunks)
            pod.terminate()
            with pytest.raises(openai.APIError, match="cut the answer short"):
                await last_of(chunks)
        assert await pod.exit_status() == ExitCode.CLEAN


async def last_of(chunks: AsyncIterator[object]) -> object:
    """The last chunk, once there are no more."""
    last = None
    async for chunk in chunks:
        last = chunk
    return last


async def test_requests_at_a_wedged_engine_are_cut_and_the_pod_leaves(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "the engine hangs, then SIGTERM",
        "requests are cut after `streamSeconds`, told and counted; exit 0",
    )
    drain = Drain(endpoint_seconds=0, stream_seconds=1, grace_seconds=5)
    plan = pods.plan_for(model, switches=PACED, drain=drain, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(40)
        await pod.fault(wedged=True)
        fault.begins()
        pod.terminate()

        assert "cut the answer short" in (await client)[-1]
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + 1 + 5 + pods.ROOM, "exit 0")
        assert pod.message.startswith("1 of 1 running requests were cut after 1 s; ")


async def test_what_a_dying_engine_was_at_is_counted_as_cut(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "SIGKILL to the engine while streams finish",
        "exit 70, all that ran is counted as cut",
    )
    plan = pods.plan_for(model, switches=PACED, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        clients = [await pod.streaming(2000) for _ in range(3)]
        pod.terminate()
        await pod.printed("new requests are refused")
        fault.begins()
        await pod.fault(signal="SIGKILL")

        for client in clients:
            with pytest.raises(aiohttp.ClientError):
                await client
        assert await pod.exit_status() == ExitCode.ENGINE
        fault.within(pods.ROOM, "exit 70")
        assert pod.message.startswith(
            "3 of 3 running requests were cut, because the engine was killed by SIGKILL"
        )


async def test_a_client_that_left_is_not_waited_for(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.DRAIN, "a client left in the middle, then SIGTERM", "not waited for, exit 0")
    plan = pods.plan_for(model, switches=PACED, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(2000)
        client.cancel()
        await asyncio.wait([client])
        fault.begins()
        pod.terminate()

        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + 2 + pods.ROOM, "exit 0")
        assert pod.message.startswith("no request was running; ")


async def test_a_front_that_does_not_count_costs_no_stream(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """The engine then finishes what it has by itself, as one that has no front."""
    fault.row(
        Kind.DRAIN,
        "the front's files are missing, SIGTERM with a stream",
        "the engine finishes the stream by itself, exit 0",
    )
    bare = pods.plan_for(model, switches=PACED)
    plan = msgspec.structs.replace(bare, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(80)
        fault.begins()
        pod.terminate()

        assert pods.finish_reason(await client) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + 10 + 2 + pods.ROOM, "exit 0")
        assert pod.message.endswith(" s after SIGTERM, within its 10 s")


async def test_twenty_streams_survive_a_stop_unaltered(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.DRAIN, "SIGTERM with 20 streams in flight", "all whole and unaltered, exit 0")
    plan = pods.plan_for(model, switches=PACED, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        expected = await pod.stream(60)
        clients = [await pod.streaming(60) for _ in range(STREAMS)]
        fault.begins()
        pod.terminate()

        assert await asyncio.gather(*clients) == [expected] * STREAMS
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(1 + 10 + 2 + pods.ROOM, "exit 0")
        assert " were cut" not in pod.message


@pytest.mark.timeout(300)
async def test_nobody_notices_a_rollout(tmp_path: Path, fault: Fault) -> None:
    """Three replicas are replaced under 20 clients; make soak does it a hundred times."""
    fault.row(
        Kind.DRAIN,
        "a rollout of 3 replicas under 20 streams",
        "no stream is dropped or altered",
    )
    fault.begins()
    outcome = await roll(tmp_path, replicas=3, streams=STREAMS, seed=1)

    assert outcome.clean, outcome
    assert outcome.whole > STREAMS
    fault.within(240, "rolled")
    fault.note(f"{outcome.whole} streams whole")
