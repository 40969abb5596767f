"""Connections that ask nothing end, over the real uvicorn: who goes, who stays, and in which
order."""

import asyncio
import contextlib
import dataclasses
import logging
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import uvicorn
from tests.support.engine.pod import until
from tests.support.ports import free_ports

from kindling_runtime.contract import PluginState
from kindling_runtime.plugins import idle_connections as idle
from kindling_runtime.plugins import replacing
from kindling_runtime.plugins.idle_connections import IDLE_CONNECTIONS, Crowd, Stage, stage_of
from kindling_runtime.plugins.plugin import Host
from kindling_runtime.plugins.registry import engaged

HEAD: Final = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire:
    """A transport with so many bytes that its client has not read."""

    def __init__(self, unread: int = 0) -> None:
        self.unread = unread

    def get_write_buffer_size(self) -> int:
        return self.unread


class Connection:
    """What of uvicorn's protocols is looked at."""

    def __init__(self, name: str, cycle: object = None, *, unread: int = 0) -> None:
        self.name = name
        self.cycle = cycle
        self.transport = Wire(unread)
        self.pipeline: list[object] = []


def cycle(*, complete: bool = False, started: bool = False, more: bool = False) -> object:
    return types.SimpleNamespace(
        response_complete=complete, response_started=started, more_body=more
    )


@pytest.mark.parametrize(
    ("connection", "stage"),
    [
        pytest.param(Connection("a"), Stage.NONE, id="it never asked"),
        pytest.param(Connection("a", cycle(complete=True)), Stage.NONE, id="it was answered"),
        pytest.param(
            Connection("a", cycle(complete=True), unread=1), Stage.WORKED_ON, id="it reads slowly"
        ),
        pytest.param(Connection("a", cycle(more=True)), Stage.COMING, id="its body is on the way"),
        pytest.param(Connection("a", cycle()), Stage.WORKED_ON, id="it waits for a token"),
        pytest.param(Connection("a", cycle(started=True)), Stage.WORKED_ON, id="it streams"),
        pytest.param(
            Connection("a", cycle(started=True, more=True)), Stage.WORKED_ON, id="it streams both"
        ),
        pytest.param(types.SimpleNamespace(), Stage.WORKED_ON, id="it is a websocket"),
    ],
)
def test_how_far_a_question_is(connection: Any, stage: Stage) -> None:
    assert stage_of(connection) is stage


def test_a_stream_stays_though_its_client_has_begun_to_ask_the_next_thing() -> None:
    connection = Connection("a", cycle(more=True))
    connection.pipeline.append(object())
    assert stage_of(connection) is Stage.WORKED_ON


def ended(crowd: Crowd, *connections: Connection, most: int = 99, longest: int = 2) -> str:
    return "".join(each.name for each in crowd.sweep(connections, most=most, longest=longest))


def test_what_asks_nothing_ends_in_time_and_nothing_else_does() -> None:
    crowd = Crowd()
    everybody = (
        Connection("a"),
        Connection("b", cycle(more=True)),
        Connection("c", cycle(started=True)),
    )
    assert [ended(crowd, *everybody) for _ in range(4)] == ["", "", "a", "a"]


def test_one_that_asked_between_two_sweeps_has_not_been_idle() -> None:
    crowd, connection = Crowd(), Connection("a", cycle(complete=True))
    for _ in range(5):
        assert ended(crowd, connection) == ""
        connection.cycle = cycle(complete=True)


def test_room_is_made_by_the_longest_idle_then_by_what_comes_slowest_and_never_by_work() -> None:
    crowd = Crowd()
    old, young = Connection("o"), Connection("y")
    slow, quick = Connection("s", cycle(more=True)), Connection("q", cycle(more=True))
    works = [Connection("w", cycle(started=True)) for _ in range(3)]
    ended(crowd, old, slow, *works)

    def over(most: int) -> str:
        return ended(crowd, old, young, slow, quick, *works, most=most, longest=99)

    assert [over(7 - number) for number in range(8)] == [
        *("", "o", "oy", "oys", "oysq"),
        *("oysq", "oysq", "oysq"),
    ]


def test_a_crowd_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    crowd = Crowd()
    caplog.set_level(logging.WARNING, logger="vllm.kindling")
    for _ in range(3):
        ended(crowd, Connection("a"), Connection("b"), most=1)
    assert caplog.text.count("2 connections to the HTTP server, of which 1 are wanted at most") == 1


class App:
    """Answers at once, but streams until it is `released` where it is asked for that."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/stream":
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await self.released.wait()
        await send({"type": "http.response.body", "body": b"last"})


class Server(uvicorn.Server):
    """As vLLM's, whose signals are its caller's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclasses.dataclass(slots=True)
class Served:
    """uvicorn with the correction, whose sweeps come each tenth of a second."""

    app: App
    port: int
    clients: list[asyncio.StreamWriter] = dataclasses.field(default_factory=list)

    async def ask(self, data: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.clients.append(writer)
        writer.write(data)
        return reader


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(uvicorn.Server, "on_tick", uvicorn.Server.on_tick)
    monkeypatch.setattr(idle, "TICKS", 1)
    monkeypatch.setattr(idle, "LONGEST_SWEEPS", 5)
    monkeypatch.setattr(idle, "_KEEP_ALIVE_SWEEPS", 0)
    IDLE_CONNECTIONS.engage()
    app, [port] = App(), free_ports(1)
    config = uvicorn.Config(app, port=port, lifespan="off", log_level="error", timeout_keep_alive=5)
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    found = Served(app, port)
    yield found
    app.released.set()
    for writer in found.clients:
        writer.close()
    server.should_exit = True
    await serving


async def test_over_uvicorn_what_never_ends_its_question_is_ended_and_a_stream_is_not(
    served: Served,
) -> None:
    stream = await served.ask(GET.replace(b"/ ", b"/stream "))
    async with asyncio.timeout(30):
        await stream.readuntil(b"first")
        slow = await served.ask(HEAD + b"\r\n1")
        nothing, half = await served.ask(b""), await served.ask(HEAD)
        again = await served.ask(GET + HEAD)
        assert await nothing.read() == await half.read() == b""
        assert (await again.read()).endswith(b"last\r\n0\r\n\r\n"), "answered, then nothing more"
        assert not stream.at_eof()
        assert not slow.at_eof()
        served.app.released.set()
        await stream.readuntil(b"last")
        served.clients[1].write(b"2")
        await slow.readuntil(b"last")


async def test_over_uvicorn_a_crowd_makes_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "LONGEST_SWEEPS", 1 << 30)
    monkeypatch.setattr(idle, "MOST", 20)
    stream = await served.ask(GET.replace(b"/ ", b"/stream "))
    async with asyncio.timeout(30):
        await stream.readuntil(b"first")
        slow = [await served.ask(HEAD + b"\r\n1") for _ in range(30)]
        crowd = [await served.ask(b"") for _ in range(30)]
        await until(lambda: all(each.at_eof() for each in crowd))
        await until(lambda: sum(each.at_eof() for each in slow) == 30 + 1 - 20)
        served.app.released.set()
        await stream.readuntil(b"last")


async def test_a_sweep_that_fails_costs_no_request(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(idle, "stage_of", None)
    nothing = await served.ask(b"")
    await until(lambda: "are not ended any more" in caplog.text)
    async with asyncio.timeout(30):
        await (await served.ask(GET)).readuntil(b"last")
    assert not nothing.at_eof()


def test_it_was_written_against_this_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two parsers, the images have both and this environment one."""
    monkeypatch.setattr(uvicorn.Server, "on_tick", uvicorn.Server.on_tick)
    here = tuple(each for each in IDLE_CONNECTIONS.originals if "httptools" not in each.module)
    assert len(here) == 4
    plugin = dataclasses.replace(IDLE_CONNECTIONS, originals=here)
    host = Host(environment={}, vllm="0.33.0", capability=None, digest=replacing.digest)
    status = engaged(plugin, host)
    assert (status.state, status.why) == (
        PluginState.ON,
        "vLLM 0.33.0 is corrected (Kludex/uvicorn issue 157)",
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("1", "VLLM_USE_RUST_FRONTEND is 1, so that another server answers"),
        ("0", None),
        ("", None),
    ],
)
def test_the_rust_frontend_does_not_need_it(value: str, why: str | None) -> None:
    environment = {"VLLM_USE_RUST_FRONTEND": value}
    host = Host(environment=environment, vllm="0.33.0", capability=None, digest=replacing.digest)
    assert IDLE_CONNECTIONS.spared(host) == why
