"""A few numbers that the engine's HTTP servers and the runtime share, as files mapped into memory.

Each server process writes a board of its own, named by its process id; the runtime reads all of
them. They are files, so what a killed engine was doing can still be read. The order goes the other
way: the runtime writes it, the servers read it at each request.

Every number is one aligned word of 8 bytes, which the kernel's page shows whole or not at all, so
neither side ever waits for the other. A file's bytes are written before it is mapped: a page that
the file system cannot hold would kill the process that touches it. The runtime itself maps nothing:
what the engine does to these files cannot end it.
"""

import enum
import mmap
import os
from pathlib import Path
from typing import Final

from kindling_runtime import foreign

FOLDER_VARIABLE: Final = "KINDLING_FRONT"
"""In the engine's environment: the folder of the boards."""

_ORDER: Final = "order"
_WORD: Final = 8
_MOST: Final = (1 << 63) - 1


class Order(enum.IntEnum):
    """What the servers do; it only ever rises."""

    SERVE = 0
    CLOSE = 1
    """Serve, and close each connection after its answer: its next request goes elsewhere."""
    REFUSE = 2
    """Finish what runs; new requests get 503."""
    CUT = 3
    """End what still runs, and say so to its clients."""


class Cell(enum.IntEnum):
    """The words of a board."""

    ACTIVE = 0
    """Requests that run now."""
    LAST_NEW = 1
    """When the last request of a client came: nanoseconds of the monotonic clock."""
    FINISHED = 2
    """Answered to the end, whatever the answer was."""
    LEFT = 3
    """The client went before the end."""
    CUT = 4
    """Ended by the server before the end."""
    REFUSED = 5
    """Answered 503, because the pod leaves."""
    DENIED = 6
    """Answered 404, because the route is not served."""


class Board:
    """The numbers of one process: `cells[Cell.X]` reads and writes one."""

    def __init__(self, folder: Path | None) -> None:
        """Of this process, in `folder`; with None, or where it cannot be made, in memory alone.

        `shared` tells whether the runtime can see it.
        """
        size = _WORD * len(Cell)
        memory: mmap.mmap | bytearray = bytearray(size)
        self.shared = False
        if folder is not None:
            try:
                memory = _mapped(folder / str(os.getpid()), size)
                self.shared = True
            except OSError:
                pass  # to serve matters more than to be counted
        self.cells = memoryview(memory).cast("q")


class OrderBook:
    """The order, as a server reads it: `cells[0]`."""

    def __init__(self, folder: Path | None) -> None:
        """That of `folder`, made where there is none; raises OSError. None: of this process."""
        memory = bytearray(_WORD) if folder is None else _mapped(folder / _ORDER, _WORD)
        self.cells = memoryview(memory).cast("q")


class OrderPen:
    """The order, as the runtime writes it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where it cannot be written."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(folder / _ORDER, flags, 0o600)
        self._given = Order.SERVE
        self._write()

    def give(self, order: Order) -> None:
        """From now on; an order only ever rises. Raises OSError."""
        self._given = max(self._given, order)
        self._write()

    def close(self) -> None:
        """No more orders."""
        os.close(self._handle)

    def _write(self) -> None:
        os.pwrite(self._handle, self._given.to_bytes(_WORD, "little"), 0)


def read(folder: Path, *, servers: int = 1) -> dict[Cell, int] | None:
    """The boards of `folder` together: sums, and the latest LAST_NEW. None where there are fewer
    than `servers`, or one that cannot be read or is cut short: its server runs and does not
    count."""
    try:
        boards = [_words(file) for file in folder.iterdir() if file.name.isdecimal()]
    except (OSError, ValueError):
        return None
    if len(boards) < max(1, servers):
        return None
    return {
        cell: min(_MOST, (max if cell is Cell.LAST_NEW else sum)(board[cell] for board in boards))
        for cell in Cell
    }


def _words(file: Path) -> list[int]:
    """The numbers of one board, none below 0; raises OSError or ValueError for what is none."""
    size = _WORD * len(Cell)
    content = foreign.content(file, most=size)
    if len(content) != size:
        raise ValueError(f"{file} has {len(content)} bytes of {size}")
    return [max(0, word) for word in memoryview(content).cast("q").tolist()]


def _mapped(file: Path, size: int) -> mmap.mmap:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size < size:
            os.write(descriptor, bytes(size))
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
