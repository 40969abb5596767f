"""Connections to vLLM's HTTP server that ask nothing end.

uvicorn 0.54.0 has one timer, between two requests (`timeout_keep_alive`), and any byte stops it.
A connection that never asks, or never ends what it asks, stays for ever, and each is a file
descriptor: as many as the process may have, and nobody is answered any more, the runtime's own
looks neither. What serves well is then given up.

Once a second, on the server's own tick, all connections are looked at: nothing is done for a
request. One that has asked nothing for a minute ends. Above half of the descriptors, and above
8,192, the one that has asked nothing for longest makes room, and after all of those the request
that has been on its way for longest. What the application is at is left alone, however long it
takes, and so is an answer that the client has not read yet.
"""

import enum
import functools
import importlib
import logging
import resource
import weakref
from collections.abc import Collection
from typing import Any, Final

from kindling_runtime.crowds import unwanted
from kindling_runtime.plugins.plugin import Host, Original, Plugin

TICKS: Final = 10
"""Of uvicorn's main loop, a tenth of a second each, between two sweeps."""
LONGEST_SWEEPS: Final = 60
_KEEP_ALIVE_SWEEPS: Final = 5
"""More than vLLM's own time between two requests (VLLM_HTTP_TIMEOUT_KEEP_ALIVE), if that is long:
uvicorn ends those itself."""
MOST: Final = 8192
"""Where there are descriptors for more than twice as many: a sweep of so many takes 5 ms."""

_RUST: Final = "VLLM_USE_RUST_FRONTEND"
_SERVER: Final = "uvicorn.server"
_HTTPTOOLS: Final = "uvicorn.protocols.http.httptools_impl"
_H11: Final = "uvicorn.protocols.http.h11_impl"

_log = logging.getLogger("vllm.kindling")


class Stage(enum.IntEnum):
    """How far a connection's present question has come."""

    NONE = 0
    """Nothing was asked, or all is answered."""
    COMING = 1
    """Its head is there, its body is not."""
    WORKED_ON = 2
    """The application is at it, or its answer has not left yet."""


def stage_of(connection: Any) -> Stage:
    """That of one of uvicorn's HTTP protocols, over httptools or h11."""
    if not hasattr(connection, "cycle") or getattr(connection, "pipeline", None):
        # A websocket, which the front ends; or questions one after the other, of which `cycle` is
        # the last one and the first is being answered.
        return Stage.WORKED_ON
    cycle = connection.cycle
    if cycle is None:
        return Stage.NONE
    if cycle.response_complete:
        unread = connection.transport.get_write_buffer_size()
        return Stage.WORKED_ON if unread else Stage.NONE
    return Stage.WORKED_ON if cycle.response_started or not cycle.more_body else Stage.COMING


class Crowd:
    """The connections of one server, and how long each has been waited for."""

    def __init__(self) -> None:
        self._waits: dict[Any, tuple[Any, int]] = {}
        self._crowded = False

    def sweep(self, connections: Collection[Any], *, most: int, longest: int) -> list[Any]:
        """Those to end of a server's `connections` as they are now: where they are more than
        `most`, and those that have asked nothing for more than `longest` sweeps."""
        before, self._waits = self._waits, {}
        idle: dict[Any, int] = {}
        coming: list[Any] = []
        for each in connections:
            stage = stage_of(each)
            idle[each] = 0
            if stage is Stage.WORKED_ON:
                continue
            cycle, sweeps = before.get(each, (each.cycle, 0))
            # Another question may have come and been answered since the last sweep.
            sweeps = sweeps + 1 if cycle is each.cycle else 1
            self._waits[each] = (each.cycle, sweeps)
            if stage is Stage.COMING:
                coming.append(each)
            else:
                idle[each] = sweeps
        ends = unwanted(idle, most=most, longest=longest)
        over = max(0, len(idle) - len(ends) - most)
        ends += sorted(coming, key=lambda each: -self._waits[each][1])[:over]
        self._tell(len(idle), most)
        return ends

    def _tell(self, count: int, most: int) -> None:
        if count > most and not self._crowded:
            _log.warning(
                "%d connections to the HTTP server, of which %d are wanted at most: those that "
                "ask nothing end, the longest idle first",
                count,
                most,
            )
        self._crowded = count > most


def _most() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST, limit // 2) if limit > 0 else MOST


def _sweep(server: Any, crowd: Crowd) -> None:
    keep_alive = int(server.config.timeout_keep_alive) + _KEEP_ALIVE_SWEEPS
    longest = max(LONGEST_SWEEPS, keep_alive)
    connections = server.server_state.connections
    for connection in crowd.sweep(connections, most=_most(), longest=longest):
        connection.transport.close()


def _spared(host: Host) -> str | None:
    value = host.environment.get(_RUST, "").strip()
    return None if value in {"", "0"} else f"{_RUST} is {value}, so that another server answers"


def _engage() -> None:
    server: Any = importlib.import_module(_SERVER).Server
    ticked = server.on_tick
    crowds: weakref.WeakKeyDictionary[Any, Crowd] = weakref.WeakKeyDictionary()
    broken: list[Exception] = []

    @functools.wraps(ticked)
    async def on_tick(self: Any, counter: int) -> Any:
        if counter % TICKS == 0 and not broken:
            try:
                _sweep(self, crowds.setdefault(self, Crowd()))
            except Exception as error:
                broken.append(error)
                _log.exception("connections that ask nothing are not ended any more")
        return await ticked(self, counter)

    server.on_tick = on_tick


IDLE_CONNECTIONS = Plugin(
    name="idle-connections",
    versions=("0.32.0", "0.33.0"),
    reference="Kludex/uvicorn issue 157",
    concerns=_SERVER,
    spared=_spared,
    originals=(
        Original(
            _SERVER,
            "Server.on_tick",
            "60ea49b06ccf68c11e91a3b8676b56f3b8ab13c86e6c9fa4654731063d8f9bd0",
        ),
        Original(
            _HTTPTOOLS,
            "HttpToolsProtocol.connection_made",
            "6efb565ff3d36b916c29bd42330a2b99b601b48932389e396e5ac53dbef6b91c",
        ),
        Original(
            _HTTPTOOLS,
            "HttpToolsProtocol.on_headers_complete",
            "1ea8589acfad92d8ff9182775f337d98fc469e0fa39642a83195fca920f5ca96",
        ),
        Original(
            _HTTPTOOLS,
            "HttpToolsProtocol.on_message_complete",
            "1fbad42dc31fc01fd4106a9885b2a2e0f6ce8d38241a3df0f615c6a8663493e0",
        ),
        Original(
            _HTTPTOOLS,
            "RequestResponseCycle.send",
            "abdd8601b326a8da972436918d3a954e1ef39c6bf0cd9e1c1954c2e798d0bb9c",
        ),
        Original(
            _H11,
            "H11Protocol.connection_made",
            "6efb565ff3d36b916c29bd42330a2b99b601b48932389e396e5ac53dbef6b91c",
        ),
        Original(
            _H11,
            "H11Protocol.handle_events",
            "e63a9d1492e3efe74f38a7e953ae0b00edd0dc99ea1f1f55cb616e2a43fa2cd9",
        ),
        Original(
            _H11,
            "RequestResponseCycle.send",
            "76b4bcb0998bed0e1ba6f4ddcf5f487c03b2f22e26421a934d49af04ee33a9dc",
        ),
    ),
    engage=_engage,
)
