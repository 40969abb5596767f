"""What a fetch is at, for those who look: the log, `/status`, and the pods that wait for it."""

import logging
import time
from dataclasses import dataclass, field

from kindling_runtime.contract import Phase, Reason
from kindling_runtime.weights.lease import Beat, Teller
from kindling_runtime.weights.progress import Meter, pair_text

_log = logging.getLogger(__name__)


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

    def arrived(self, count: int) -> None:
        """Bytes from the store."""
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
            return self.text
        return f"Downloading {self.meter.sentence(time.monotonic())}"

    @property
    def summary(self) -> str:
        """What has been done, once it is over."""
        if self.meter is None:
            return self.text
        return f"{pair_text(self.meter.fetched, self.meter.total)} came from the store"
