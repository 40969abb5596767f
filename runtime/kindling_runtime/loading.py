"""Is a loading engine still at work: what its processes read, write and compute.

A load takes minutes and answers nobody, so its age says little. The kernel counts what each process
reads, faults in, writes to storage and computes (/proc/PID/io and stat, proc(5)). What it logs is
no sign: vLLM says once a minute that it waits (distributed/device_communicators/shm_broadcast.py),
however long.
"""

import asyncio
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kindling_runtime.state import Event, Idle, Worked

LOOK_SECONDS: Final = 2.0
READ_BYTES: Final = 256 * 1024
"""Less in one look is what processes read that wait for each other."""
WRITTEN_BYTES: Final = 64 * 1024
"""Less in one look is no kernel: counters that are kept in files, marks of use."""
BUSY_SHARE: Final = 0.05
"""Of one CPU; less is what processes take that wait for each other."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What the processes of a session have done: bytes read by calls, pages of mapped files that
    were fetched from storage, bytes written to storage (to no pipe: proc(5), write_bytes), seconds
    computed."""

    read: int = 0
    faults: int = 0
    seconds: float = 0.0
    written: int = 0


def judge(before: Work, after: Work, *, elapsed: float) -> Worked | None:
    """What happened between two looks; None for nothing.

    A process that ends takes its counts along, so that less than before is a sign of life too.
    """
    read = abs(after.read - before.read)
    written = abs(after.written - before.written)
    if after.faults != before.faults or read >= READ_BYTES or written >= WRITTEN_BYTES:
        return Worked(moved=True)
    if abs(after.seconds - before.seconds) >= BUSY_SHARE * elapsed:
        return Worked(moved=False)
    return None


class Stillness:
    """For how long a load has stood still, look by look; pure."""

    def __init__(self, work: Work, *, now: float, stuck_seconds: float) -> None:
        """`work` is what was done at `now`."""
        self.work = work
        """What was done at the last look."""
        self.seconds = 0.0
        """For how long nothing at all was done."""
        self._looked = now
        self._stuck = stuck_seconds

    def seen(self, work: Work, *, now: float) -> Worked | Idle | None:
        """What follows from another look; idle is said at each one once it has lasted too long."""
        elapsed = now - self._looked
        found = judge(self.work, work, elapsed=elapsed)
        self.work, self._looked = work, now
        if found is not None:
            self.seconds = 0.0
            return found
        # Whoever was stopped itself, and the engine with it, has seen nothing meanwhile.
        self.seconds += min(elapsed, 2 * LOOK_SECONDS)
        return Idle(round(self.seconds)) if self.seconds >= self._stuck else None


class LoadWatch:
    """Turns what the engine's processes do into `Worked` and `Idle` until it is cancelled."""

    def __init__(self, session: int, *, stuck_seconds: float) -> None:
        """`session` is the engine's pid, which leads its session."""
        self._session = session
        self._stillness = Stillness(
            work_of(session), now=time.monotonic(), stuck_seconds=stuck_seconds
        )

    @property
    def work(self) -> Work:
        """What was done at the last look."""
        return self._stillness.work

    @property
    def idle_seconds(self) -> float:
        """For how long nothing at all was done."""
        return self._stillness.seconds

    async def run(self, happened: Callable[[Event], None]) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            found = self._stillness.seen(work_of(self._session), now=time.monotonic())
            if found is not None:
                happened(found)


def work_of(session: int, *, proc: Path = Path("/proc")) -> Work:
    """What the processes of a session have done that are there now."""
    read, faults, seconds, written = 0, 0, 0.0, 0
    for folder in _processes(proc):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            # From the state on, the third field of proc(5): session is the sixth, majflt the
            # twelfth, utime and stime the fourteenth and fifteenth.
            if int(fields[3]) != session:
                continue
            faults += int(fields[9])
            seconds += (int(fields[11]) + int(fields[12])) / _TICKS
            told = _told(folder)
            # Reading from a page cache counts too.
            read += told.get("rchar", 0)
            written += told.get("write_bytes", 0)
        except (OSError, ValueError, IndexError):
            continue
    return Work(read, faults, seconds, written)


def _processes(proc: Path) -> Iterator[Path]:
    return (folder for folder in proc.iterdir() if folder.name.isdecimal())


def _told(folder: Path) -> dict[str, int]:
    """The counts of a process' io; empty where they are not told."""
    try:
        text = (folder / "io").read_text()
    except OSError:
        return {}
    found = (line.partition(": ") for line in text.splitlines())
    return {name: int(count) for name, _, count in found}
