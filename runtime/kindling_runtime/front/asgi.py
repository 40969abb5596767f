"""The front: an ASGI middleware inside vLLM's HTTP server (`vllm serve --middleware`).

It lets the listed routes pass and nothing else, counts what runs, and once the pod leaves refuses
new requests in words that clients understand. It costs no hop, no copy and no process (the
measurements: docs/adr/0010). It imports the standard library only, and what is read and written
at each request is memory: nothing that happens to the runtime can hold up a request.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

from kindling_runtime.front.board import FOLDER_VARIABLE, Board, Cell, Order, OrderBook
from kindling_runtime.front.routes import Kind, kind_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1
"""What clients are told to wait: by then a new connection leads to another replica."""
_LOOK_SECONDS: Final = 0.1
"""Between two looks whether what runs is to be cut."""
_FAREWELL_SECONDS: Final = 0.5
"""For a client that does not read: nobody waits longer for it to hear that it was cut."""
_BODY_SECONDS: Final = 5.0
"""For a client that is refused to have sent its request; one without end is not heard out."""

# As vLLM writes them. A quotation mark in what a model wrote is escaped, so it cannot be either.
_ABORTED: Final = b'"finish_reason":"abort"'
_SAY_SO: Final = frozenset({"/v1/completions", "/v1/chat/completions"})
"""The routes whose answers have that word; others hand clients' own JSON back (`metadata`)."""
_FAILED: Final = b'data: {"error"'


class Front:
    """The middleware. Anything but HTTP and websockets (the server's start and end) passes."""

    def __init__(self, app: App) -> None:
        self._app = app
        named = os.environ.get(FOLDER_VARIABLE)
        folder = Path(named) if named else None
        board = Board(folder)
        try:
            book = OrderBook(folder if board.shared else None)
        except OSError:
            book = OrderBook(None)
        if folder is not None and not board.shared:
            _log.warning("the front's counts are not shared: nothing can be written to %s", folder)
        self._cells = board.cells
        self._order = book.cells
        self._running: set[_Exchange] = set()
        self._looking = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve, refuse or deny one request."""
        if scope["type"] == "websocket":
            # None is served: before it is accepted, a close is HTTP 403.
            self._cells[Cell.DENIED] += 1
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kind = kind_of(scope["method"], scope["path"])
        order = self._order[0]
        if kind is None:
            self._cells[Cell.DENIED] += 1
            await _answer(send, 404, _not_served(scope))
        elif kind is Kind.WATCH or (kind is Kind.HEALTH and order < Order.CLOSE):
            await self._app(scope, receive, send)
        elif kind is Kind.HEALTH:
            await _refuse(receive, send)
        elif order < Order.REFUSE:
            await self._work(scope, receive, send)
        else:
            await self._turn_away(receive, send)

    async def _work(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if not self._looking:
            self._looking = True
            self._look()
        cells = self._cells
        cells[Cell.ACTIVE] += 1
        if self._order[0] >= Order.REFUSE:
            # It came between the look at the order and the count, when whoever gave it may have
            # seen nothing run.
            cells[Cell.ACTIVE] -= 1
            await self._turn_away(receive, send)
            return
        exchange = _Exchange(receive, send, self._order, says_so=scope["path"] in _SAY_SO)
        self._running.add(exchange)
        cells[Cell.LAST_NEW] = time.monotonic_ns()
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if not exchange.cut:
                raise
        finally:
            self._running.discard(exchange)
            if exchange.cut and not exchange.ended:
                await exchange.say_farewell()
            cells[exchange.outcome] += 1
            cells[Cell.ACTIVE] -= 1

    async def _turn_away(self, receive: Receive, send: Send) -> None:
        self._cells[Cell.REFUSED] += 1
        await _refuse(receive, send)

    def _look(self) -> None:
        """Look for the order to cut, now and again; once it is there nothing new begins."""
        if self._order[0] < Order.CUT:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
            return
        for exchange in tuple(self._running):
            exchange.end()


class _Exchange:
    """One request of a client while it runs, between the server and the application."""

    __slots__ = (
        *("_order", "_receive", "_says_so", "_send", "_task", "_type"),
        *("broken", "cut", "ended", "left"),
    )

    def __init__(self, receive: Receive, send: Send, order: memoryview, *, says_so: bool) -> None:
        """`says_so`: an answer that the engine has aborted says so in vLLM's words."""
        self._receive = receive
        self._says_so = says_so
        self._send = send
        self._order = order
        self._task = asyncio.current_task()
        self._type: bytes | None = None
        self.ended = False
        self.broken = False
        self.left = False
        self.cut = False

    @property
    def outcome(self) -> Cell:
        """The cell that counts how it went."""
        if self.ended and not (self.cut or self.broken):
            return Cell.FINISHED
        return Cell.LEFT if self.left and not self.cut else Cell.CUT

    async def receive(self) -> Message:
        """The server's next message to the application."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.left = not self.ended
        return message

    async def send(self, message: Message) -> None:
        """The application's next message to the server."""
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            self._type = next((value for name, value in headers if name == b"content-type"), b"")
            if self._order[0] >= Order.CLOSE:
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await self._send(message)
            return
        body = message.get("body", b"")
        if self._says_so and (_ABORTED in body or body.startswith(_FAILED)):
            self.broken = True
        await self._send(message)
        self.ended = not message.get("more_body", False)

    def end(self) -> None:
        """Have the application give up; the engine aborts what it generates for it."""
        self.cut = True
        if self._task is not None:
            self._task.cancel()

    async def say_farewell(self) -> None:
        """Tell the client that this was not all, in the way that its answer allows."""
        if self._task is not None:
            self._task.uncancel()
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                if self._type is None:
                    await _unavailable(self._send, _CUT)
                elif self._type.startswith(b"text/event-stream"):
                    error = {"type": "error", "error": _error(503, _CUT)}
                    event = b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
                    await self._send({"type": "http.response.body", "body": event})
        except (TimeoutError, OSError):
            pass  # it does not read, or is gone


_CUT: Final = "This replica is being stopped and cut the answer short: send the request again."
_LEAVES: Final = "This replica is being stopped and takes no more requests: send it again."


def _not_served(scope: MutableMapping[str, Any]) -> str:
    return f"{scope['method']} {scope['path']} is not served here: use the OpenAI API below /v1."


async def _refuse(receive: Receive, send: Send) -> None:
    """503, on a connection that ends: the next one leads to another replica."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            message = await receive()
            while message["type"] == "http.request" and message.get("more_body", False):
                # What is sent must have arrived, or the end of the connection overtakes the answer.
                message = await receive()
    await _unavailable(send, _LEAVES)


async def _unavailable(send: Send, text: str) -> None:
    headers = ((b"retry-after", str(RETRY_SECONDS).encode()), (b"connection", b"close"))
    await _answer(send, 503, text, headers=headers)


async def _answer(
    send: Send, status: int, text: str, *, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    body = json.dumps({"error": _error(status, text)}).encode()
    size = (b"content-length", str(len(body)).encode())
    given = [(b"content-type", b"application/json"), size, *headers]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


def _error(status: int, text: str) -> dict[str, Any]:
    """An error as the OpenAI API gives it, and vLLM too."""
    kind = "NotFoundError" if status == 404 else "ServiceUnavailableError"
    return {"message": text, "type": kind, "param": None, "code": status}
