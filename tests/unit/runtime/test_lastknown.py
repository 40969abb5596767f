"""`/status` over an engine that is quick, late or stopped.

The sockets are real, the clock skips the waits.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from tests.support.engine.plans import launch_plan
from tests.support.engine.skipping import SkippingLoop

from kindling_runtime import http
from kindling_runtime.contract import STATUS_PATH, Phase, Reason, Status
from kindling_runtime.facts import Facts
from kindling_runtime.lastknown import PATIENCE_SECONDS
from kindling_runtime.state import EngineState, State

TOLD = """\
http_requests_total{{handler="/v1/models",method="GET",status="2xx"}} {count}
vllm:cache_config_info{{engine="0",num_gpu_blocks="79000"}} 1.0
"""
_Result = TypeVar("_Result")


class Engine:
    """A server of metrics that answers while it is told to."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.count = 0

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    async def answer_one(self) -> None:
        """Answer the next connection."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self.socket)
        with connection:
            await loop.sock_recv(connection, 65536)
            body = TOLD.format(count=self.count)
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
            await loop.sock_sendall(connection, (head + body).encode())

    def was_asked(self) -> bool:
        """Whether a connection waits."""
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


class Page:
    """`/status` of a runtime over that engine."""

    def __init__(self, engine: Engine) -> None:
        self.misses = 0
        self.phase = Phase.READY
        plan = launch_plan(port=engine.port)
        started = asyncio.Event().wait
        self.app = http.application(plan, self._facts, state=self._state, start_over=started)

    async def read(self) -> tuple[float, Status]:
        """The seconds that it took, and the document."""
        begun = asyncio.get_running_loop().time()
        request = make_mocked_request("GET", STATUS_PATH)
        answer = await (await self.app.router.resolve(request)).handler(request)
        assert isinstance(answer, web.Response)
        assert isinstance(answer.body, bytes)
        took = asyncio.get_running_loop().time() - begun
        return took, msgspec.json.decode(answer.body, type=Status)

    def _state(self) -> State:
        return State(
            phase=self.phase,
            reason=Reason.TOKEN_GENERATED,
            message="it serves",
            since=1.0,
            engine=EngineState.RUNNING,
            first_token=40.0,
            misses=self.misses,
        )

    def _facts(self) -> Facts:
        return Facts(
            version="1",
            state=self._state(),
            deadline=None,
            engine_pid=7,
            engine_started=1.0,
            engine_launch_seconds=1.0,
            first_token_seconds=40.0,
            canaries=1,
            orphans=0,
            leftover_bytes=0,
        )


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    with found.socket:
        yield found


@pytest.fixture
def lived(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Page], Awaitable[None]]], None]:
    """Runs a story of a page on the clock that skips."""

    async def whole(story: Callable[[Page], Awaitable[None]]) -> None:
        monkeypatch.setattr(time, "monotonic", asyncio.get_running_loop().time)
        page = Page(engine)
        page.app.freeze()
        try:
            await story(page)
        finally:
            await page.app.cleanup()

    def run(story: Callable[[Page], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=lambda: SkippingLoop(begins=100.3)) as runner:
            runner.run(whole(story))

    return run


Lived = Callable[[Callable[[Page], Awaitable[None]]], None]


def test_an_engine_that_stops_to_answer_does_not_hold_the_page_up(
    engine: Engine, lived: Lived
) -> None:
    """It is bounded for any number of readers, and has what was told before."""

    async def story(page: Page) -> None:
        engine.count = 3
        _, (_, before) = await asyncio.gather(engine.answer_one(), page.read())
        await asyncio.sleep(30)
        found = await asyncio.gather(*(page.read() for _ in range(8)))

        assert before.models_answers == 3
        for took, status in found:
            assert took == pytest.approx(PATIENCE_SECONDS, abs=0.01)
            assert status.models_answers == 3
            assert status.facts is not None
            assert status.facts.kv_blocks == 79_000

    lived(story)


def test_what_comes_late_is_there_for_the_next_question(engine: Engine, lived: Lived) -> None:
    async def story(page: Page) -> None:
        engine.count = 5
        took, early = await page.read()
        await engine.answer_one()
        _, late = await page.read()

        assert took == pytest.approx(PATIENCE_SECONDS, abs=0.01)
        assert (early.models_answers, early.facts) == (None, None)
        assert late.models_answers == 5

    lived(story)


@pytest.mark.parametrize(("phase", "misses"), [(Phase.READY, 1), (Phase.STALLED, 2)])
def test_while_a_miss_is_known_nothing_is_asked(
    phase: Phase, misses: int, engine: Engine, lived: Lived
) -> None:
    async def story(page: Page) -> None:
        page.phase, page.misses = phase, misses
        took, _ = await page.read()

        assert took == 0
        assert not engine.was_asked()

    lived(story)
