"""Time as the runtime tells it: monotonic for waits, RFC 3339 for people."""

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path

Clock = Callable[[], float]
"""Seconds that never run backwards, as `time.monotonic`."""


_LATE_SECONDS = 5.0
"""More than a busy machine makes an event loop wait."""


class Awake:
    """Notices that this process, and with it whatever it looks at, was not let run: SIGSTOP, the
    cgroup's freezer, a machine that is moved. To be asked once a second or more often."""

    def __init__(self) -> None:
        self._asked = time.monotonic()
        self._stood = 0.0

    def stood_still(self) -> float:
        """Seconds since the last question, if it was not let run; else 0."""
        before, self._asked = self._asked, time.monotonic()
        gap = self._asked - before
        still = gap if gap >= _LATE_SECONDS else 0.0
        self._stood += still
        return still

    def now(self) -> float:
        """`time.monotonic` without the time that it stood still."""
        self.stood_still()
        return self._asked - self._stood


def process_started() -> float:
    """When this process began, on the clock of `time.monotonic`.

    The interpreter's own start belongs to the time that a pod takes, so it is read from the kernel
    (field 22 of proc_pid_stat(5), clock ticks since boot).
    """
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    ticks = int(stat.rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age


def rfc3339(moment: float) -> str:
    """The wall-clock time of a monotonic `moment`, in UTC to the second."""
    wall = time.time() - (time.monotonic() - moment)
    return datetime.datetime.fromtimestamp(wall, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
