"""Answers that the engine has given and whose clients have not taken all of them yet.

An engine is done with an answer once it has handed it to its server, and the server once the kernel
has it. A slow client may still be reading minutes later: if the engine is told to stop then, its
server ends such a connection after its own time, and the rest is lost. The kernel tells which
connections hold bytes that their clients have not acknowledged (/proc/net/tcp, proc_net(5)).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def connections(port: int, *, tables: Sequence[Path] = _TABLES) -> frozenset[str]:
    """Those to local `port` that hold bytes their clients have not acknowledged, by both ends as
    the kernel writes them; none where it does not tell."""
    return frozenset(each for table in tables for each in _held(table, f":{port:04X}"))


def _held(table: Path, end: str) -> Iterator[str]:
    try:
        lines = table.read_text(encoding="ascii", errors="replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        # sl local_address rem_address st tx_queue:rx_queue
        fields = line.split(maxsplit=5)
        if len(fields) > 4 and fields[1].endswith(end) and fields[4].partition(":")[0].strip("0"):
            yield f"{fields[1]} {fields[2]}"


class Untaken:
    """Of one port while its pod leaves. What counts is what clients had not taken when the last
    request was done with: answers after that refuse, and are not waited for."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._left: frozenset[str] | None = None

    def count(self, *, running: int, over: bool) -> int:
        """How many answers are still being taken; 0 while any request is `running`, and where the
        first look without one is made when the time for them is `over`."""
        if self._left is None and over:
            self._left = frozenset()
        if self._left is None and not running:
            self._left = connections(self._port)
        elif self._left:
            self._left &= connections(self._port)
        return len(self._left or ())
