"""The runtime's own endpoints, for the kubelet, the operator and Prometheus."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from kindling_runtime import guests
from kindling_runtime.contract import (
    LIVE_PATH,
    METRICS_PATH,
    READY_PATH,
    STARTED_PATH,
    STATUS_PATH,
    LaunchPlan,
    Status,
)
from kindling_runtime.facts import Facts
from kindling_runtime.lastknown import LastKnown
from kindling_runtime.report import Metrics, status
from kindling_runtime.state import State

_SHUTDOWN_SECONDS = 1
_log = logging.getLogger(__name__)


def application(
    plan: LaunchPlan,
    facts: Callable[[], Facts],
    *,
    state: Callable[[], State],
    start_over: Callable[[], Awaitable[object]],
) -> web.Application:
    """The endpoints over `facts`; each answer is of the moment in which it is asked for.

    Probes take `state` alone: to gather all facts is to read what engine and front wrote. That at
    STARTED_PATH waits until `start_over` returns: at a first token, or at the end without.
    """
    metrics = Metrics(facts)

    async def startup(_: web.Request) -> web.Response:
        await start_over()
        now = state()
        return _verdict(now.started, now.message)

    async def readiness(_: web.Request) -> web.Response:
        now = state()
        return _verdict(now.ready, now.message)

    async def liveness(_: web.Request) -> web.Response:
        now = state()
        return _verdict(now.alive, now.message)

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    known = LastKnown(port=plan.engine.port)
    app.on_cleanup.append(lambda _: known.close())
    app.router.add_get(STATUS_PATH, _status_page(plan, facts, state, known))
    app.router.add_get(STARTED_PATH, startup)
    app.router.add_get(READY_PATH, readiness)
    app.router.add_get(LIVE_PATH, liveness)
    app.router.add_get(METRICS_PATH, show_metrics)
    return app


def _status_page(
    plan: LaunchPlan, facts: Callable[[], Facts], state: Callable[[], State], known: LastKnown
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def show(_: web.Request) -> web.Response:
        if not state().ready:
            # One that loads has no metrics, one that leaves is busy.
            return document(status(plan, facts()))
        if not state().misses:
            await known.refresh()
        count, told = known.models_answers, known.facts
        return document(status(plan, facts(), models_answers=count, told=told))

    return show


@contextlib.asynccontextmanager
async def serving(app: web.Application, *, host: str, port: int) -> AsyncIterator[None]:
    """Serve `app` while the context lasts; raises OSError when the port cannot be bound."""
    crowd = guests.Guests()
    crowd.watch(app)
    guests.hush(_log)
    runner = web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        logger=_log,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None, "it is set up"
    sweeping = asyncio.create_task(crowd.sweep(runner.server))
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        sweeping.cancel()
        await runner.cleanup()


def document(told: Status) -> web.Response:
    """The status document as an answer."""
    return web.Response(body=msgspec.json.encode(told), content_type="application/json")


def _verdict(holds: bool, message: str) -> web.Response:
    return web.Response(status=200 if holds else 503, text=message + "\n")
