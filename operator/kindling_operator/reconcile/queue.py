"""The work queue: one worker per key, retries with backoff, and no change is ever lost."""

import asyncio
import random
from collections.abc import Callable
from math import inf
from typing import Generic

from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.reconcile.schedule import Backoff, K, Schedule


class Queue(Generic[K]):
    """Keys to reconcile. `add` from anywhere in the loop; workers `get`, then call `done`."""

    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        clock: Clock = boottime,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._schedule: Schedule[K] = Schedule()
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._chance = chance
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self.closed = False

    def __len__(self) -> int:
        return len(self._schedule)

    def add(self, key: K) -> None:
        """Work on the key as soon as a worker is free."""
        self._schedule.add(key)
        self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on the key after that time, unless it comes up earlier."""
        self._schedule.add_at(key, self._clock() + seconds)
        self._wake.set()

    def retry(self, key: K, *, at_least: float = 0.0, at_most: float = inf) -> float:
        """The key failed: work on it again after a growing time; returns that time."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        growing = self._backoff.after(failures, chance=self._chance())
        seconds = max(at_least, min(at_most, growing))
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key succeeded, or is gone: its next failure is its first."""
        self._failures.pop(key, None)

    async def get(self, *, within: float) -> K | None:
        """The next key, in work from now until `done`; None if there is none `within` seconds."""
        give_up = self._clock() + within
        while not self.closed:
            self._wake.clear()
            key = self._schedule.take(self._clock())
            if key is not None:
                # Another key may be ready for another worker that this wake-up did not reach.
                self._wake.set()
                return key
            due = self._schedule.next_due()
            left = min(give_up, due if due is not None else give_up) - self._clock()
            try:
                async with asyncio.timeout(max(0.0, left)):
                    await self._wake.wait()
            except TimeoutError:
                if self._clock() >= give_up:
                    return None
        return None

    def done(self, key: K) -> None:
        """The work on the key has ended."""
        self._schedule.done(key)
        self._wake.set()
        self._ended.set()

    def close(self) -> None:
        """From now on no key is given out; what is in work goes on."""
        self.closed = True
        self._wake.set()

    async def drained(self, *, within: float) -> bool:
        """Wait until no key is in work, so many seconds at most; whether that is so."""
        try:
            async with asyncio.timeout(within):
                while self._schedule.working:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            return False
        return True
