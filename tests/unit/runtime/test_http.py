"""The runtime's endpoints in one process, without a socket."""

import dataclasses

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from tests.support.engine.plans import launch_plan

from kindling_runtime import http
from kindling_runtime.contract import LIVE_PATH, READY_PATH, STARTED_PATH, Phase, Reason
from kindling_runtime.facts import Facts
from kindling_runtime.state import EngineState, State

LOADING = State(
    phase=Phase.LOADING,
    reason=Reason.ENGINE_STARTED,
    message="the engine runs",
    since=1.0,
    engine=EngineState.RUNNING,
)
READY = dataclasses.replace(LOADING, phase=Phase.READY, message="it serves", first_token=40.0)


def gather() -> Facts:
    """All that can be told, which costs reads of files and may not be asked for here."""
    raise AssertionError("a probe asked for all facts")


async def probe(path: str, state: State) -> tuple[int, str | None]:
    """The answer to the kubelet: status and text."""

    async def started() -> None:
        return None

    app = http.application(launch_plan(), gather, state=lambda: state, start_over=started)
    request = make_mocked_request("GET", path)
    answer = await (await app.router.resolve(request)).handler(request)
    assert isinstance(answer, web.Response)
    return answer.status, answer.text


@pytest.mark.parametrize("path", [STARTED_PATH, READY_PATH, LIVE_PATH])
async def test_a_probe_of_an_engine_that_serves_reads_the_state_alone(path: str) -> None:
    assert await probe(path, READY) == (200, "it serves\n")


@pytest.mark.parametrize(("path", "status"), [(READY_PATH, 503), (LIVE_PATH, 200)])
async def test_a_probe_of_an_engine_that_loads_reads_the_state_alone(
    path: str, status: int
) -> None:
    assert await probe(path, LOADING) == (status, "the engine runs\n")
