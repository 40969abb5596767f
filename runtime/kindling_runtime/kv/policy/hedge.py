"""When a second request is sent after a slow one: later than 95 of 100 took, and seldom."""

from dataclasses import dataclass, field
from typing import Final

_KEPT: Final = 128
_FEWEST: Final = 20


@dataclass(slots=True)
class Hedge:
    """For reads of one kind. `share` of all reads may have a second request, in the long run; at
    most `saved` at once."""

    share: float = 0.05
    saved: float = 8.0
    shortest: float = 0.01
    """Seconds; below, a second request is not worth its price."""
    _seconds: list[float] = field(default_factory=list)
    _next: int = 0
    _right: float = 1.0

    def took(self, seconds: float) -> None:
        """A first request was answered after so long."""
        self._right = min(self.saved, self._right + self.share)
        if len(self._seconds) < _KEPT:
            self._seconds.append(seconds)
        else:
            self._seconds[self._next] = seconds
            self._next = (self._next + 1) % _KEPT

    def after(self) -> float | None:
        """Seconds after which a second request may be sent; None where too little is known."""
        if len(self._seconds) < _FEWEST:
            return None
        ordered = sorted(self._seconds)
        return max(self.shortest, ordered[len(ordered) * 95 // 100])

    def take(self) -> bool:
        """Whether one may be sent now; then its right is used up."""
        if self._right < 1.0:
            return False
        self._right -= 1.0
        return True
