"""A proxy before a real store that breaks what a test says: late, hung, reset, refused, busy, cut,
changed. It passes everything else on as it is, signatures included."""

import asyncio
import contextlib
import enum
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web
from tests.support.stores.real import RealStore
from yarl import URL

_CODES: Final = {
    "refuse": (403, "AccessDenied", "Access Denied"),
    "busy": (503, "SlowDown", "Reduce your request rate"),
    "fail": (500, "InternalError", "We encountered an internal error"),
}
_HOPS: Final = frozenset({"transfer-encoding", "connection", "keep-alive"})


class Harm(enum.StrEnum):
    """What becomes of a request."""

    LATE = "late"
    """Answered after `seconds`."""
    HANG = "hang"
    """Never answered."""
    RESET = "reset"
    """The connection is reset."""
    REFUSE = "refuse"
    BUSY = "busy"
    FAIL = "fail"
    CUT = "cut"
    """The answer ends in the middle of its body."""
    CHANGE = "change"
    """One byte of the answer's body is another."""


@dataclass(slots=True)
class Proxy:
    """`harm` befalls requests of the methods in `methods`, all where it is empty, at most `times`
    of them."""

    port: int = 0
    harm: Harm | None = None
    methods: frozenset[str] = frozenset()
    seconds: float = 0.0
    times: int | None = None
    seen: list[str] = field(default_factory=list)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def breaks(
        self, harm: Harm, *methods: str, seconds: float = 0.0, times: int | None = None
    ) -> None:
        """From now on."""
        self.harm, self.methods = harm, frozenset(methods)
        self.seconds, self.times = seconds, times

    def heals(self) -> None:
        """From now on, also for what hangs."""
        self.harm = None
        self._released.set()
        self._released = asyncio.Event()

    def falls_on(self, method: str) -> Harm | None:
        """The harm of a request that has come."""
        self.seen.append(method)
        if self.harm is None or (self.methods and method not in self.methods):
            return None
        if self.times is not None:
            if self.times <= 0:
                return None
            self.times -= 1
        return self.harm

    async def wait(self) -> None:
        """Until it is healed."""
        await self._released.wait()


@contextlib.asynccontextmanager
async def before(store: RealStore) -> AsyncIterator[Proxy]:
    """A proxy before that store while the context lasts; it has the store's certificate."""
    proxy = Proxy()
    connector = aiohttp.TCPConnector(ssl=store.tls.of_client, limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def ask(request: web.Request) -> web.StreamResponse:
            return await _answer(request, proxy, store, session)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", ask)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=store.tls.of_server).start()
            proxy.port = runner.addresses[0][1]
            yield proxy
        finally:
            proxy.heals()
            for connection in runner.server.connections if runner.server is not None else ():
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()


async def _answer(
    request: web.Request, proxy: Proxy, store: RealStore, session: aiohttp.ClientSession
) -> web.StreamResponse:
    harm = proxy.falls_on(request.method)
    match harm:
        case Harm.LATE:
            await asyncio.sleep(proxy.seconds)
        case Harm.HANG:
            await proxy.wait()
        case Harm.RESET:
            return _reset(request)
        case Harm.REFUSE | Harm.BUSY | Harm.FAIL:
            status, code, says = _CODES[harm]
            text = f"<Error><Code>{code}</Code><Message>{says}</Message></Error>"
            return web.Response(status=status, text=text, content_type="application/xml")
    url = f"https://localhost:{store.port}"
    async with session.request(
        request.method,
        URL(url + request.raw_path, encoded=True),
        headers=request.headers,
        data=io.BytesIO(sent) if (sent := await request.read()) else None,
        allow_redirects=False,
    ) as told:
        body = bytearray(await told.read())
        headers = {n: v for n, v in told.headers.items() if n.lower() not in _HOPS}
        if harm is Harm.CHANGE and body:
            body[len(body) // 2] ^= 1
        if harm is not Harm.CUT or not body:
            return await _sent(request, told.status, headers, bytes(body))
        answer = web.StreamResponse(status=told.status, headers=headers)
        await answer.prepare(request)
        await answer.write(bytes(body[: len(body) // 2]))
        return _reset(request, answer)


async def _sent(
    request: web.Request, status: int, headers: dict[str, str], body: bytes
) -> web.StreamResponse:
    if request.method == "HEAD":
        answer = web.StreamResponse(status=status, headers=headers)
        await answer.prepare(request)
        return answer
    headers.pop("Content-Length", None)
    return web.Response(status=status, headers=headers, body=body)


def _reset(request: web.Request, answer: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return answer or web.Response()
