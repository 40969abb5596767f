"""What a fetch is at, for those who look: the log, `/status`, and the pods that wait for it."""

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from kindling_runtime import clock
from kindling_runtime.contract import Phase, Reason
from kindling_runtime.foreign import printable
from kindling_runtime.weights.lease import Beat, Teller
from kindling_runtime.weights.progress import SLOWEST, Meter, pair_text, size_text

_log = logging.getLogger(__name__)

_ASKS: Final = frozenset({Reason.LISTING, Reason.DOWNLOADING})
_PATIENCE_SECONDS: Final = 10.0
"""A store that pauses for less is only slow."""


@dataclass(slots=True)
class Board:
    """One writer, the fetch; read at any time. Moments are monotonic."""

    phase: Phase = Phase.STARTING
    reason: Reason = Reason.PREFLIGHT
    text: str = "looking at the cache"
    since: float = field(default_factory=time.monotonic)
    meter: Meter | None = None
    teller: Teller = field(default_factory=Teller)
    last_problem: str = ""
    pause: float = 0.0
    """When the store wants to be asked again, where it has said so."""

    def enter(self, phase: Phase, reason: Reason, text: str) -> None:
        """Another step, which is logged."""
        if phase is not self.phase:
            self.since = time.monotonic()
        self.phase, self.reason, self.text = phase, reason, text
        _log.info("%s %s: %s", phase, reason, self.message)

    def waiting(self, beat: Beat | None) -> None:
        """Another pod has the lease; `beat` is what it tells."""
        self.teller.done, self.teller.total = (beat.done, beat.total) if beat else (0, 0)
        says = beat.says if beat is not None and beat.says else "it has told nothing yet"
        text = f"another pod downloads: {says}"
        if self.reason is not Reason.WAITING_FOR_DOWNLOAD:
            self.enter(Phase.DOWNLOADING, Reason.WAITING_FOR_DOWNLOAD, text)
        self.text = text

    def begin(self, meter: Meter) -> None:
        """The download starts, or goes on."""
        self.meter = meter
        self.tell()

    def put_off(self, wait: float) -> None:
        """The store wants not to be asked for so long; 0 where it does not say."""
        if wait:
            self.pause = max(self.pause, time.monotonic() + wait)

    def idle(self, *, most: float) -> float:
        """Seconds without a byte, less those that the store asked for, of which `most` count."""
        now, moved = time.monotonic(), self.since if self.meter is None else self.meter.moved
        return now - moved - min(most, max(0.0, min(self.pause, now) - moved))

    def arrived(self, count: int) -> None:
        """Bytes from the store."""
        self.last_problem = ""
        if self.meter is not None:
            self.meter = self.meter.arrived(count, now=time.monotonic())

    def lost(self, count: int) -> None:
        """Bytes that are fetched again."""
        if self.meter is not None:
            self.meter = self.meter.lost(count)

    def touch(self) -> None:
        """Work that brings no bytes."""
        if self.meter is not None:
            self.meter = self.meter.touched(time.monotonic())

    def tell(self) -> None:
        """Let the lease's next beat say how far it is."""
        if self.meter is not None:
            self.teller.done, self.teller.total = self.meter.done, self.meter.total
            self.teller.says = self.meter.sentence(time.monotonic())

    @property
    def message(self) -> str:
        """One line for people, with the bytes while they come."""
        if self.meter is None or self.reason is not Reason.DOWNLOADING:
            return printable(self.text)
        return f"Downloading {self.meter.sentence(time.monotonic())}"

    @property
    def excuse(self) -> str:
        """What the store does instead of sending, as far as it is known."""
        crawls = self.meter is not None and self.meter.crawls
        sends = "a few bytes at a time" if crawls else "nothing"
        return self.last_problem or f"it accepts and sends {sends}"

    @property
    def lack(self) -> str:
        """What has come of a store that stands still."""
        if self.meter is not None and self.meter.crawls:
            return f"less than {size_text(SLOWEST)}/s of weights has come"
        return "no byte of weights has come"

    @property
    def problem(self) -> str:
        """What a store that sends nothing, or hardly anything, does, as a clause; else ""."""
        moved = self.since if self.meter is None else self.meter.moved
        if self.reason not in _ASKS or time.monotonic() - moved < _PATIENCE_SECONDS:
            return ""
        return printable(
            f"{self.lack} since {clock.rfc3339(moved)} ({self.excuse}); see whether the store"
            " answers and the pod's network lets it"
        )

    @property
    def summary(self) -> str:
        """What has been done, once it is over."""
        if self.meter is None:
            return self.text
        return f"{pair_text(self.meter.fetched, self.meter.total)} came from the store"
