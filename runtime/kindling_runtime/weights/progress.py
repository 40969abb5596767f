"""How far a download is, how fast, and when it ends: values only. Moments are monotonic seconds."""

from dataclasses import dataclass, replace
from typing import Final

_WINDOW_SECONDS: Final = 30.0
"""What a rate is made from: long enough for a store's moods, short enough to notice a stop."""
_SPACING_SECONDS: Final = 1.0
_LEAST_SECONDS: Final = 3.0
"""Before that a rate is a guess."""
SLOWEST: Final = 1 << 10
"""Bytes per second of the whole download: what brings less stands still, however regularly."""
_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True, slots=True)
class Meter:
    """`done` of `total` bytes are there, `fetched` of them came from the store in this process.

    `heard` is when the last one came; `moved` is behind it where fewer come than `SLOWEST`: each
    pays for so much time. `samples` are moments with what had been fetched by then.
    """

    total: int
    started: float
    done: int = 0
    fetched: int = 0
    moved: float = 0.0
    heard: float = 0.0
    samples: tuple[tuple[float, int], ...] = ()

    @classmethod
    def begin(cls, total: int, *, done: int, now: float) -> "Meter":
        """A download that begins, or goes on, with `done` bytes there."""
        return cls(total=total, started=now, done=done, moved=now, heard=now, samples=((now, 0),))

    def arrived(self, count: int, *, now: float) -> "Meter":
        """`count` more bytes from the store."""
        grown = replace(
            self,
            done=self.done + count,
            fetched=self.fetched + count,
            moved=min(now, self.moved + count / SLOWEST),
            heard=now,
        )
        return grown._sampled(now)

    def lost(self, count: int) -> "Meter":
        """`count` bytes that were there have to be fetched again."""
        return replace(self, done=max(0, self.done - count))

    def touched(self, now: float) -> "Meter":
        """Work went on that brought no byte: a checksum, a flush."""
        return replace(self, moved=now, heard=now)

    @property
    def crawls(self) -> bool:
        """Whether bytes come, and fewer than count."""
        return self.heard > self.moved

    def rate(self, now: float) -> float | None:
        """Bytes per second of late; None before there is anything to tell."""
        kept = [s for s in self.samples if s[0] >= now - _WINDOW_SECONDS] or [self.samples[-1]]
        since, had = kept[0]
        if now - since < _LEAST_SECONDS:
            return None
        return (self.fetched - had) / (now - since)

    def seconds_left(self, now: float) -> float | None:
        """Until the last byte at the present rate; None where that is never."""
        rate = self.rate(now)
        return None if not rate else max(0, self.total - self.done) / rate

    def sentence(self, now: float) -> str:
        """As in `412.0 of 592.0 GiB, 820.0 MiB/s, 4 min left`."""
        rate, left = self.rate(now), self.seconds_left(now)
        pace = "" if rate is None else f", {size_text(rate)}/s"
        rest = "" if left is None else f", {duration_text(left)} left"
        return f"{pair_text(self.done, self.total)}{pace}{rest}"

    def _sampled(self, now: float) -> "Meter":
        if now - self.samples[-1][0] < _SPACING_SECONDS:
            return self
        kept = tuple(s for s in self.samples if s[0] >= now - _WINDOW_SECONDS)
        return replace(self, samples=(*kept, (now, self.fetched)))


def size_text(count: float) -> str:
    """Bytes in the largest unit that fits, one digit after the point."""
    size, unit = _unit(count)
    return f"{count / size:.1f} {unit}" if size > 1 else f"{count:.0f} B"


def pair_text(done: int, whole: int) -> str:
    """Two sizes in the unit of the second: `412.0 of 592.0 GiB`."""
    size, unit = _unit(whole)
    return f"{done / size:.1f} of {whole / size:.1f} {unit}"


def _unit(count: float) -> tuple[int, str]:
    return next((each for each in _UNITS if count >= each[0]), (1, "B"))


def duration_text(seconds: float) -> str:
    """`40 s`, `4 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
