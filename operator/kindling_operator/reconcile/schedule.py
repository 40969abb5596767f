"""Which key is worked on when: the queue's bookkeeping, without a clock and without waiting."""

import heapq
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between tries: `first` doubled with every failure up to `cap`, less up to `jitter`.

    `jitter` is the share that chance may take away, so that keys that failed together do not come
    back together.
    """

    first: float = 0.1
    cap: float = 300.0
    jitter: float = 0.5

    def after(self, failures: int, *, chance: float) -> float:
        """The wait after the n-th failure in a row; `chance` is in [0, 1)."""
        # 2.0**64 is beyond every cap, and a larger exponent would overflow one day.
        whole = min(self.cap, self.first * 2.0 ** min(failures - 1, 64))
        return whole * (1.0 - self.jitter * chance)


class Schedule(Generic[K]):
    """Keys that are ready, in work, or due later. A key is in work at most once.

    A key that is added while it is in work becomes ready again when it is done, so no change is
    lost. Of several due times of a key the earliest counts.
    """

    def __init__(self) -> None:
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._pushed = 0

    def __len__(self) -> int:
        """Keys that wait to be worked on now; those due later are not counted."""
        return len(self._ready)

    @property
    def working(self) -> int:
        """Keys that are in work."""
        return len(self._working)

    def add(self, key: K) -> None:
        """Make the key ready now."""
        if key in self._working:
            self._again.add(key)
        else:
            self._due.pop(key, None)
            self._ready.setdefault(key)

    def add_at(self, key: K, due: float) -> None:
        """Make the key ready at `due`, unless it is ready or due earlier."""
        if key in self._ready or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._pushed += 1
        heapq.heappush(self._heap, (due, self._pushed, key))

    def take(self, now: float) -> K | None:
        """The key that has been ready longest, now in work; None if there is none."""
        self._ripen(now)
        if not self._ready:
            return None
        key, _ = self._ready.popitem(last=False)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """The work on the key has ended, however it ended."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def next_due(self) -> float | None:
        """When the next key becomes ready by itself."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _ripen(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            self.add(key)
