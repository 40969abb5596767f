"""A clock that skips what would be waited for: minutes pass in a second."""

import asyncio
import selectors
from typing import Any, Final

_QUIET_SECONDS: Final = 0.05
"""So long no socket has anything to say before time moves: what is sent over loopback is there."""


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop over real sockets whose time moves only when nothing else is left to do, and
    then at once to the next timer; so no machine is too busy for an exact time."""

    def __init__(self, *, begins: float) -> None:
        """`begins` is what its clock shows first, in seconds."""
        self._now = begins
        selector = _Skipping(self)
        super().__init__(selector)

    def time(self) -> float:
        """Seconds on its own clock."""
        return self._now

    def skip(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


class _Skipping(selectors.DefaultSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(None if timeout is None else min(timeout, _QUIET_SECONDS))
        if not found and timeout is not None:
            self._loop.skip(max(0.0, timeout))
        return found
