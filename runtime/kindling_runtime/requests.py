"""What runs on the engine's serving port, as the front counts it, and the front's orders.

Without a front there is nothing to see and nobody to order; all of this then does nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from kindling_runtime import contract
from kindling_runtime.front import board
from kindling_runtime.front.board import Cell
from kindling_runtime.front.keeper import Keeper, quiet_seconds, traffic
from kindling_runtime.state import Event, Order, Requests, Signal
from kindling_runtime.untaken import Untaken

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
"""Between two looks at what runs; a look reads some 60 bytes."""
_FRONT_ORDERS = {Order.CLOSE: board.Order.CLOSE, Order.CUT: board.Order.CUT}
"""The others refuse: an engine that was told to stop takes no more requests."""


class RequestWatch:
    """Of one engine; make it before the engine starts and close it after the engine's end."""

    def __init__(self, front: contract.Front | None, *, port: int) -> None:
        """`port`: where the engine is asked."""
        self._untaken = Untaken(port)
        self._order = Order.RUN
        self._fronted = front is not None
        self._keeper = None if front is None else _keeper(front.servers)
        self._draining = asyncio.Event()
        self._cut_before = 0
        self._left_before: int | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What the engine must be told."""
        return {} if self._keeper is None else self._keeper.environment

    def order(self, order: Order) -> None:
        """Have the front do its part of an order."""
        self._order = max(self._order, order)
        if self._keeper is not None:
            try:
                self._keeper.order(_FRONT_ORDERS.get(order, board.Order.REFUSE))
            except OSError as error:
                _log.warning("the front cannot be told: no file can be written (%s)", error)

    def drain(self) -> None:
        """From now on it matters what runs; what was cut before does not count."""
        self._cut_before = self._counted(Cell.CUT)
        self._draining.set()

    async def run(self, happened: Callable[[Event], None]) -> None:
        """Tell what runs while the pod drains, until it is cancelled."""
        if not self._fronted:
            return
        await self._draining.wait()
        while True:
            counts = None if self._keeper is None else self._keeper.counts()
            if counts is None:
                happened(Signal.UNCOUNTED)
            else:
                cut = max(0, counts[Cell.CUT] - self._cut_before)
                active, untaken, left = counts[Cell.ACTIVE], 0, 0
                if self._order >= Order.REFUSE:
                    over = self._order >= Order.CUT
                    untaken = self._untaken.count(running=active, over=over)
                    if self._left_before is None:
                        self._left_before = counts[Cell.LEFT]
                    left = max(0, counts[Cell.LEFT] - self._left_before)
                happened(Requests(active, quiet_seconds(counts), cut, untaken, left))
            await asyncio.sleep(_LOOK_SECONDS)

    def lost(self) -> int:
        """How many requests were cut since the drain began, once the engine is gone: what it was
        at is among them."""
        return max(0, self._counted(Cell.CUT, gone=True) - self._cut_before)

    def traffic(self, *, gone: bool) -> contract.Traffic | None:
        """The counts since the engine's start, None where nobody counts."""
        counts = None if self._keeper is None else self._keeper.counts(gone=gone)
        return None if counts is None else traffic(counts)

    def close(self) -> None:
        """Remove what it left in the file system."""
        if self._keeper is not None:
            self._keeper.close()

    def _counted(self, cell: Cell, *, gone: bool = False) -> int:
        counts = None if self._keeper is None else self._keeper.counts(gone=gone)
        return 0 if counts is None else counts[cell]


def _keeper(servers: int) -> Keeper | None:
    try:
        return Keeper(servers=servers)
    except OSError as error:
        # Serving matters more; the pod leaves as one whose front does not tell what runs.
        _log.warning("the front is not heard: no file can be written (%s)", error.strerror)
        return None
