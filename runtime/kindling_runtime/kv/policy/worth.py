"""Whether it pays to load a prefix, from what loads and prefills have taken.

A load of n bytes takes `latency + n / bandwidth`, a prefill of n tokens `n / speed`; all three are
learned while the engine runs. Until something is known of both, prefixes are loaded.
"""

from dataclasses import dataclass
from typing import Final

_WEIGHT: Final = 0.2
_TRY_EVERY: Final = 32


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds; None where too little is known."""

    load: float | None
    recompute: float | None


@dataclass(slots=True)
class Worth:
    """`margin` is how much slower than a recompute a load may be and still be made: it leaves the
    GPU to others. Of what does not pay, one of 32 is loaded nevertheless, to go on learning."""

    margin: float = 1.0
    latency: float | None = None
    """Seconds until the first byte."""
    bandwidth: float | None = None
    """Bytes per second of one load, with the others that ran beside it."""
    speed: float | None = None
    """Tokens per second of a prefill."""
    density: float | None = None
    """Bytes per token of the prefix that was judged last."""
    skipped: int = 0
    _since: int = 0

    def answered(self, seconds: float) -> None:
        """A request for no bytes, or for the first of them, took so long."""
        self.latency = _towards(self.latency, seconds)

    def loaded(self, count: int, seconds: float) -> None:
        """A load of so many bytes took so long, with its latency."""
        moving = seconds - (self.latency or 0.0)
        self.bandwidth = _towards(self.bandwidth, count / max(moving, seconds / 10, 1e-6))

    def computed(self, tokens: int, seconds: float) -> None:
        """The engine has computed so many tokens of one prompt in so long."""
        if tokens > 0 and seconds > 0:
            self.speed = _towards(self.speed, tokens / seconds)

    def estimate(self, tokens: int, count: int) -> Estimate:
        """Of a prefix of so many tokens that is `count` bytes in the store."""
        known = self.latency is not None and self.bandwidth is not None
        load = (self.latency or 0.0) + count / (self.bandwidth or 1.0) if known else None
        return Estimate(load, tokens / self.speed if self.speed else None)

    def pays(self, tokens: int, count: int) -> bool:
        """Whether to load it."""
        self.density = count / max(1, tokens)
        found = self.estimate(tokens, count)
        if found.load is None or found.recompute is None:
            return True
        if found.load <= self.margin * found.recompute:
            return True
        self._since += 1
        if self._since >= _TRY_EVERY:
            self._since = 0
            return True
        self.skipped += 1
        return False

    def threshold(self) -> int | None:
        """The fewest tokens that pay, at the density of the last prefix; 0 where nothing is known,
        None where none pay."""
        if not self.latency or not self.bandwidth or not self.speed or not self.density:
            return 0
        gain = self.margin / self.speed - self.density / self.bandwidth
        return int(self.latency / gain) + 1 if gain > 0 else None


def _towards(before: float | None, now: float) -> float:
    return now if before is None else before + _WEIGHT * (now - before)
