"""The runtime's side of the front: it gives the order and reads the counts."""

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kindling_runtime.contract import Traffic
from kindling_runtime.front.board import FOLDER_VARIABLE, Cell, Order, OrderPen, read


class Keeper:
    """Of one engine; make it before the engine starts and close it after the engine's end."""

    def __init__(self, *, servers: int = 1) -> None:
        """`servers`: how many the engine has. Raises OSError where no file can be written."""
        self._servers = servers
        self._folder = Path(tempfile.mkdtemp(prefix="kindling-front-"))
        self._pen = OrderPen(self._folder)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the engine must be told."""
        return {FOLDER_VARIABLE: str(self._folder)}

    def order(self, order: Order) -> None:
        """Have all servers do this from their next request on; an order only ever rises."""
        self._pen.give(order)

    def counts(self, *, gone: bool = False) -> Mapping[Cell, int] | None:
        """All servers' numbers together; None while one of them does not tell.

        Of servers that are `gone`, what they were at is cut.
        """
        counts = read(self._folder, servers=self._servers)
        if counts is None or not gone:
            return counts
        return {**counts, Cell.ACTIVE: 0, Cell.CUT: counts[Cell.CUT] + counts[Cell.ACTIVE]}

    def close(self) -> None:
        """Remove the files; what has them mapped keeps them."""
        self._pen.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def traffic(counts: Mapping[Cell, int]) -> Traffic:
    """The counts for the status document."""
    return Traffic(
        active=counts[Cell.ACTIVE],
        finished=counts[Cell.FINISHED],
        left=counts[Cell.LEFT],
        cut=counts[Cell.CUT],
        refused=counts[Cell.REFUSED],
        denied=counts[Cell.DENIED],
    )


def quiet_seconds(counts: Mapping[Cell, int]) -> float:
    """How long no client has asked for anything; where none ever has, since the machine's start."""
    return (time.monotonic_ns() - counts[Cell.LAST_NEW]) / 1e9
