"""Is a loading engine still at work: what its processes read, compute and say.

A load takes minutes and answers nobody, so its age says little. The kernel counts what each process
reads, faults in and computes (/proc/PID/io and stat, proc(5)). Of a pod in a group nothing follows
from that: one that has loaded waits for the others.
"""

import asyncio
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kindling_runtime.contract import Probe
from kindling_runtime.state import Event, Idle, Worked

LOOK_SECONDS: Final = 2.0
READ_BYTES: Final = 256 * 1024
"""Less in one look is what processes read that wait for each other."""
BUSY_SHARE: Final = 0.05
"""Of one CPU; less is what processes take that wait for each other."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What the processes of a session have done: bytes read by calls, pages of mapped files that
    were fetched from storage, seconds computed, lines said."""

    read: int = 0
    faults: int = 0
    seconds: float = 0.0
    lines: int = 0


def judge(before: Work, after: Work, *, elapsed: float) -> Worked | None:
    """What happened between two looks; None for nothing.

    A process that ends takes its counts along, so that less than before is a sign of life too.
    """
    read = abs(after.read - before.read)
    said = (after.lines, after.faults) != (before.lines, before.faults)
    if said or read >= READ_BYTES:
        return Worked(moved=True)
    if abs(after.seconds - before.seconds) >= BUSY_SHARE * elapsed:
        return Worked(moved=False)
    return None


class LoadWatch:
    """Turns what the engine's processes do into `Worked` and `Idle` until it is cancelled."""

    def __init__(self, session: int, limits: Probe, *, lines: Callable[[], int]) -> None:
        """`session` is the engine's pid, which leads its session; `lines` counts what it said."""
        self.work = Work()
        """What was done at the last look."""
        self._session = session
        self._limits = limits
        self._lines = lines

    async def run(self, happened: Callable[[Event], None]) -> None:
        """Look again and again; idle is said at each look once it has lasted too long."""
        self.work, looked = self._look(), time.monotonic()
        worked = looked
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, self.work = self.work, self._look()
            now = time.monotonic()
            found = judge(before, self.work, elapsed=now - looked)
            looked = now
            if found is not None:
                worked = now
                happened(found)
            elif now - worked >= self._limits.stuck_seconds:
                happened(Idle(round(now - worked)))

    def _look(self) -> Work:
        return work_of(self._session, lines=self._lines())


def work_of(session: int, *, lines: int = 0, proc: Path = Path("/proc")) -> Work:
    """What the processes of a session have done that are there now."""
    read, faults, seconds = 0, 0, 0.0
    for folder in _processes(proc):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            # From the state on, the third field of proc(5): session is the sixth, majflt the
            # twelfth, utime and stime the fourteenth and fifteenth.
            if int(fields[3]) != session:
                continue
            faults += int(fields[9])
            seconds += (int(fields[11]) + int(fields[12])) / _TICKS
            read += _read_bytes(folder)
        except (OSError, ValueError, IndexError):
            continue
    return Work(read, faults, seconds, lines)


def _processes(proc: Path) -> Iterator[Path]:
    return (folder for folder in proc.iterdir() if folder.name.isdecimal())


def _read_bytes(folder: Path) -> int:
    """Bytes that a process has read, from a page cache too; 0 where that is not told."""
    try:
        text = (folder / "io").read_text()
    except OSError:
        return 0
    found = (line.partition(":")[2] for line in text.splitlines() if line.startswith("rchar:"))
    return int(next(found, "0"))
