"""The fence: no write is sent by a process that may have lost the Lease.

Time is CLOCK_BOOTTIME: it never jumps and goes on while the machine sleeps, so a process that was
stopped and continued finds its fence closed (clock_gettime(2)).
"""

import time
from collections.abc import Callable
from typing import Final

from kindling_operator.kube.errors import FencedError

Clock = Callable[[], float]

_NEVER: Final = float("-inf")


def boottime() -> float:
    """Seconds since the machine was booted, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fence:
    """Whether a write may be sent now. Closed until the first renewal of the Lease.

    `extend` is told when the request of a renewal *started*: the API server's own clock for the
    lease cannot have begun before.
    """

    def __init__(self, *, lease_seconds: float, renew_seconds: float, clock: Clock = boottime):
        """Writes start within `renew_seconds` of a renewal and have ended after `lease_seconds`."""
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._renewed = _NEVER

    def extend(self, started: float) -> None:
        """A renewal whose request began at `started` has succeeded."""
        self._renewed = max(self._renewed, started)

    def close(self) -> None:
        """From now on nothing is sent."""
        self._renewed = _NEVER

    @property
    def open(self) -> bool:
        """Whether a write may start now."""
        return self._clock() < self._renewed + self._renew_seconds

    def check(self) -> None:
        """Raise FencedError unless a write may start now."""
        if not self.open:
            raise FencedError("the Lease was not renewed in time, so another operator may lead")

    def budget(self) -> float:
        """Seconds until the Lease may belong to another; a write must have ended by then."""
        return max(0.0, self._renewed + self._lease_seconds - self._clock())
