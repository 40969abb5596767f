"""Who connects to the runtime's own ports and asks nothing does not stay.

aiohttp waits for ever for the first question of a connection, and each connection is a file
descriptor: without one left no probe is answered, and the kubelet ends a pod that serves well.
Above `MOST` those that ask nothing go first, and then those that are being answered, of the address
that has the most of them: a question may wait as long as its body, or as a start, takes.
"""

import asyncio
import collections
import logging
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from kindling_runtime.crowds import crowding, unwanted

MOST: Final = 512
"""Probes, the operator and some scrapers need a dozen."""
_SWEEP_SECONDS: Final = 1.0
_IDLE_SWEEPS: Final = 120
"""Scrapers keep a connection for their next question a minute later."""


class Guests:
    """The connections of one server."""

    def __init__(self) -> None:
        self._answering: collections.Counter[object] = collections.Counter()
        self._answered: set[object] = set()

    def watch(self, app: web.Application) -> None:
        """Note whose questions are being answered; before the application is served."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._answering[request.protocol] += 1
            try:
                return await handler(request)
            finally:
                self._answering[request.protocol] -= 1
                self._answered.add(request.protocol)

        app.middlewares.append(note)

    async def sweep(self, server: web.Server) -> None:
        """End what is unwanted, again and again until it is cancelled."""
        idle: dict[web.RequestHandler, int] = {}
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._answering = +self._answering
            lately, self._answered = self._answered | self._answering.keys(), set()
            idle = {
                guest: 0 if guest in lately else idle.get(guest, 0) + 1
                for guest in server.connections
            }
            ends = unwanted(idle, most=MOST, longest=_IDLE_SWEEPS)
            waits = {guest: _address(guest) for guest in idle if not idle[guest]}
            for guest in (*ends, *crowding(waits, over=len(idle) - len(ends) - MOST)):
                _end(guest)


def _address(guest: web.RequestHandler) -> str:
    """Where it is, "" where it has just gone."""
    transport = guest.transport
    name = None if transport is None else transport.get_extra_info("peername")
    return str(name[0]) if name else ""


def _end(guest: web.RequestHandler) -> None:
    """At once: who does not read its answer would keep a connection that only is to be closed."""
    transport = guest.transport
    guest.force_close()
    if transport is not None:
        transport.abort()


def hush(log: logging.Logger) -> None:
    """What is no HTTP is answered with 400, and is no reason for a stack trace in the pod's log."""
    log.addFilter(_is_our_fault)


def _is_our_fault(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
