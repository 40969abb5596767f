"""The front in one process: what passes, what is answered instead, what is counted."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kindling_runtime.front.asgi import Front, Message, Receive, Send
from kindling_runtime.front.board import FOLDER_VARIABLE, Board, Cell, Order, OrderBook, read

Body = Callable[[Receive, Send], Awaitable[None]]
SERVED = (
    ("GET", "/v1/models"),
    ("GET", "/v1/models/org/tiny"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/chat/completions"),
    ("OPTIONS", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/audio/transcriptions"),
)
# Routes of vLLM 0.33 that nobody may reach, most of them without a key; dev mode's among them.
DENIED = (
    ("POST", "/invocations"),
    ("GET", "/ping"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/scale_elastic_ep"),
    ("GET", "/is_scaling_elastic_ep"),
    ("GET", "/kv_event_sources"),
    ("GET", "/version"),
    ("GET", "/load"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/server_info"),
    ("POST", "/sleep"),
    ("POST", "/wake_up"),
    ("POST", "/reset_prefix_cache"),
    ("POST", "/collective_rpc"),
    ("POST", "/update_weights"),
    ("POST", "/abort_requests"),
    ("POST", "/fault_tolerance/apply"),
    ("POST", "/inference/v1/generate"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/v1/responses/render"),
    ("POST", "/v1/chat/completions/render"),
    ("DELETE", "/v1/models/tiny"),
    ("POST", "/v1/chat/completions/"),
    ("POST", "//v1/chat/completions"),
    ("POST", "/v1/../tokenize"),
    ("POST", "/metrics"),
    ("OPTIONS", "/tokenize"),
)


class Server:
    """What uvicorn is to an application; it keeps what it was told to send."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.left = asyncio.Event()
        self._asked = False

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"{}", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


def scope(method: str = "POST", path: str = "/v1/chat/completions") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": []}


async def one_answer(receive: Receive, send: Send) -> None:
    """A whole answer."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"{}"})


def stream_of(*events: bytes) -> Body:
    """A stream of events that is complete."""

    async def stream(receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for event in events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return stream


async def endless(receive: Receive, send: Send) -> None:
    """A stream whose second event never comes."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
    await asyncio.Event().wait()


async def until_left(receive: Receive, send: Send) -> None:
    """As vLLM: the end of the client is the end of its request."""
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def fronted(body: Body = one_answer) -> Front:
    async def app(_: Any, receive: Receive, send: Send) -> None:
        await body(receive, send)

    return Front(app)


def order(folder: Path, what: Order) -> None:
    OrderBook(folder).cells[0] = what


def counted(folder: Path) -> dict[str, int]:
    """What is not zero, but for the clock."""
    counts = read(folder)
    assert counts is not None
    return {
        cell.name: value for cell, value in counts.items() if value and cell is not Cell.LAST_NEW
    }


async def asked(front: Front, **given: Any) -> Server:
    server = Server()
    await front(scope(**given), server.receive, server.send)
    return server


@pytest.mark.parametrize(("method", "path"), SERVED)
async def test_what_clients_use_passes(folder: Path, method: str, path: str) -> None:
    assert (await asked(fronted(), method=method, path=path)).status == 200
    assert counted(folder) == {"FINISHED": 1}


@pytest.mark.parametrize(("method", "path"), DENIED)
async def test_nothing_else_does(folder: Path, method: str, path: str) -> None:
    server = await asked(fronted(), method=method, path=path)

    assert server.status == 404
    assert f"{method} {path} is not served here" in json.loads(server.body)["error"]["message"]
    assert counted(folder) == {"DENIED": 1}


async def test_a_websocket_is_closed_before_it_opens(folder: Path) -> None:
    server = Server()
    await fronted()({"type": "websocket", "path": "/v1/realtime"}, server.receive, server.send)

    assert server.sent == [{"type": "websocket.close", "code": 1008}]
    assert counted(folder) == {"DENIED": 1}


async def test_the_servers_own_start_and_end_pass(folder: Path) -> None:
    server = Server()
    await fronted(until_left)({"type": "lifespan"}, _disconnected, server.send)

    assert counted(folder) == {}


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}


async def test_an_answer_is_passed_on_as_it_is(folder: Path) -> None:
    server = await asked(fronted())

    assert server.sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"{}"},
    ]


async def test_monitoring_is_no_client(folder: Path) -> None:
    front = fronted()
    for what in (Order.SERVE, Order.REFUSE):
        order(folder, what)
        assert (await asked(front, method="GET", path="/metrics")).status == 200
    assert counted(folder) == {}


@pytest.mark.parametrize(
    ("what", "health", "work"),
    [(Order.SERVE, 200, 200), (Order.CLOSE, 503, 200), (Order.REFUSE, 503, 503)],
)
async def test_health_is_red_before_requests_are_refused(
    folder: Path, what: Order, health: int, work: int
) -> None:
    order(folder, what)
    front = fronted()

    assert (await asked(front, method="GET", path="/health")).status == health
    assert (await asked(front)).status == work


async def test_connections_are_not_kept_while_endpoints_let_go(folder: Path) -> None:
    order(folder, Order.CLOSE)

    assert (await asked(fronted())).headers == {b"a": b"b", b"connection": b"close"}


async def test_a_refusal_says_when_to_come_again_and_reads_the_request_first(folder: Path) -> None:
    order(folder, Order.REFUSE)
    parts = [{"type": "http.request", "body": b"x", "more_body": more} for more in (True, False)]
    server = Server()

    async def receive() -> Message:
        return parts.pop(0)

    await fronted()(scope(), receive, server.send)

    assert not parts
    assert server.status == 503
    assert (server.headers[b"retry-after"], server.headers[b"connection"]) == (b"1", b"close")
    assert json.loads(server.body)["error"]["type"] == "ServiceUnavailableError"
    assert counted(folder) == {"REFUSED": 1}


ENDED = b'data: {"choices":[{"finish_reason":"%s"}]}\n\n'
OUTCOMES = {
    "a stream to its end": (stream_of(b"data: {}\n\n", ENDED % b"stop"), "FINISHED"),
    "a text that looks like an abort": (
        stream_of(b'data: {"text":"\\"finish_reason\\":\\"abort\\""}\n\n', ENDED % b"length"),
        "FINISHED",
    ),
    "aborted by the engine": (stream_of(ENDED % b"abort"), "CUT"),
    "ended by an error event": (stream_of(b'data: {"error":{"code":500}}\n\n'), "CUT"),
}


@pytest.mark.parametrize(("body", "outcome"), OUTCOMES.values(), ids=OUTCOMES.keys())
async def test_how_a_request_ended_is_counted(folder: Path, body: Body, outcome: str) -> None:
    await asked(fronted(body))

    assert counted(folder) == {outcome: 1}


async def test_what_a_client_has_named_itself_is_no_abort(folder: Path) -> None:
    """/v1/responses hands the request's `metadata` back as they came."""
    given = b'{"metadata":{"finish_reason":"abort"},"status":"completed"}'
    await asked(fronted(stream_of(given)), path="/v1/responses")

    assert counted(folder) == {"FINISHED": 1}


async def test_an_application_that_fails_is_heard_and_counted(folder: Path) -> None:
    async def fails(receive: Receive, send: Send) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await asked(fronted(fails))
    assert counted(folder) == {"CUT": 1}


async def test_a_client_that_leaves_is_not_cut(folder: Path) -> None:
    server = Server()
    running = asyncio.create_task(fronted(until_left)(scope(), server.receive, server.send))
    await asyncio.sleep(0)
    assert counted(folder) == {"ACTIVE": 1}
    server.left.set()
    await running

    assert counted(folder) == {"LEFT": 1}


async def test_a_stream_that_is_cut_ends_with_an_error_event(folder: Path) -> None:
    server = Server()
    running = asyncio.create_task(fronted(endless)(scope(), server.receive, server.send))
    await asyncio.sleep(0.01)
    order(folder, Order.CUT)
    await running

    name, data = server.sent[-1]["body"].decode().strip().split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: "))["error"]["code"] == 503
    assert "more_body" not in server.sent[-1]
    assert counted(folder) == {"CUT": 1}


async def test_a_cancelled_server_is_not_mistaken_for_a_cut(folder: Path) -> None:
    server = Server()
    running = asyncio.create_task(fronted(endless)(scope(), server.receive, server.send))
    await asyncio.sleep(0.01)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(server.sent) == 2


async def test_without_a_folder_it_serves_and_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("", "/nowhere/at/all"):
        monkeypatch.setenv(FOLDER_VARIABLE, given)
        front = fronted()
        assert (await asked(front)).status == 200
        assert (await asked(front, path="/tokenize")).status == 404


def test_with_fewer_servers_than_planned_nobody_is_believed(tmp_path: Path) -> None:
    """One that could not even create its file is at something, and nobody knows at what."""
    Board(tmp_path)
    assert read(tmp_path, servers=1) is not None
    assert read(tmp_path, servers=2) is None
    (tmp_path / "1").write_bytes(bytes(8 * len(Cell)))
    assert read(tmp_path, servers=2) is not None


def test_servers_are_counted_together(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    own = Board(tmp_path).cells
    own[Cell.FINISHED], own[Cell.LAST_NEW] = 2, 7
    other = bytearray(8 * len(Cell))
    other[8 * Cell.FINISHED], other[8 * Cell.LAST_NEW] = 3, 5
    (tmp_path / "1").write_bytes(other)
    # A server that is just beginning, or that the file system did not let write: it may be at
    # something, and nobody knows.
    (tmp_path / "2").write_bytes(b"")
    assert read(tmp_path) is None
    (tmp_path / "2").write_bytes(bytes(8 * len(Cell)))

    counts = read(tmp_path)
    assert counts is not None
    assert (counts[Cell.FINISHED], counts[Cell.LAST_NEW]) == (5, 7)
    assert read(tmp_path / "gone") is None
