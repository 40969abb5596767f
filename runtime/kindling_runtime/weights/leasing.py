"""Whether another one's lease still moves, and who holds one: judgement only.

No clock of another machine is read: what counts is for how long the waiting process itself, on its
own monotonic clock, has seen nothing change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

BEAT_SECONDS: Final = 5.0
STALE_SECONDS: Final = 90.0
"""Longer than NFS clients keep attributes (acdirmax 60 s, nfs(5)), so that a live owner whose beats
are seen late is not taken for dead."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a lease looked like, and since when on the clock of who looked."""

    number: int
    look: bytes
    since: float

    def again(self, number: int, look: bytes, *, now: float) -> "Sighting":
        """The next look at the highest lease."""
        same = (number, look) == (self.number, self.look)
        return self if same else Sighting(number, look, now)

    def is_stale(self, now: float, *, limit: float = STALE_SECONDS) -> bool:
        """Whether nobody has moved it for `limit` seconds."""
        return now - self.since >= limit


def next_number(numbers: Iterable[int]) -> int:
    """The number of the lease that follows all these: only one process can create it."""
    return max(numbers, default=0) + 1


def holds(own: int, numbers: Iterable[int]) -> bool:
    """Whether the lease `own` is the one that counts: it is there and none is newer."""
    found = set(numbers)
    return own in found and own == max(found)
