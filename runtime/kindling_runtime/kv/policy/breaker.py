"""When a store is left alone: pure; moments are seconds of any clock that does not go back."""

import enum
from dataclasses import dataclass


class BreakerState(enum.StrEnum):
    """As in status and metrics."""

    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


@dataclass(slots=True)
class Breaker:
    """Opens after `failures` in a row, and after each open time lets one request try.

    An open time is doubled up to `longest` while tries fail. A try whose end is never told counts
    as failed once another open time is over.
    """

    failures: int = 5
    first: float = 1.0
    longest: float = 60.0
    why: str = ""
    """What the last failure was; "" while closed."""
    opened: int = 0
    """How often it has gone from closed to open."""
    _row: int = 0
    _wait: float = 0.0
    _until: float | None = None
    _trying: bool = False

    def state(self, now: float) -> BreakerState:
        """At this moment."""
        if self._until is None:
            return BreakerState.CLOSED
        tried = self._trying or now >= self._until
        return BreakerState.HALF_OPEN if tried else BreakerState.OPEN

    def allows(self, now: float) -> bool:
        """Whether a request may be made; when half open, this one is the try."""
        if self._until is None:
            return True
        if now < self._until:
            return False
        # The next may come after another open time, should this one's end never be told.
        self._until = now + self._wait
        self._trying = True
        return True

    def succeeded(self) -> None:
        """The store has answered."""
        self._row, self._wait, self._until, self._trying, self.why = 0, 0.0, None, False, ""

    def failed(self, now: float, why: str) -> None:
        """The store has not answered, or refused."""
        self._row += 1
        if self._until is None and self._row < self.failures:
            return
        self.why = why
        if self._until is None:
            self.opened += 1
            self._wait = self.first
        elif self._trying:
            self._wait = min(self.longest, 2 * self._wait)
        else:
            return  # of a request from before it opened
        self._trying = False
        self._until = now + self._wait
