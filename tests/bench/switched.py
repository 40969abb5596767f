"""The middleware of the server that tests/bench/front.py measures."""

from typing import Final

from kindling_runtime.front.asgi import App, Front, Message, Receive, Send

HEADER: Final = "x-bench-way"
FRONT: Final = "front"


class Switched:
    """Sends a request through the front, or around it, as its header says."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._front = Front(app)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request; both ways pay for the look at the header."""
        through = (HEADER.encode(), FRONT.encode()) in scope.get("headers", ())
        await (self._front if through else self._app)(scope, receive, send)
