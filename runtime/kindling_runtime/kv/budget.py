"""Memory that may be in use at once: who wants some waits until it is there, in order."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Budget:
    """So many bytes. One that is larger than all of them is let in alone."""

    limit: int
    used: int = 0
    most: int = 0
    """That were ever in use."""
    _waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    @contextlib.asynccontextmanager
    async def taken(self, count: int) -> AsyncIterator[None]:
        """Wait for so many bytes, and give them back at the end."""
        await self.take(count)
        try:
            yield
        finally:
            self.give(count)

    async def take(self, count: int) -> None:
        """Wait for so many bytes; nothing is taken when the wait is cancelled."""
        if not self._waiting and self._fits(count):
            self._add(count)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(count)  # it was this one's turn already
            else:
                self._waiting = deque(each for each in self._waiting if each[1] is not turn)
                self._admit()
            raise

    def take_now(self, count: int) -> bool:
        """Take so many bytes if they are there and nobody waits for them."""
        if self._waiting or not self._fits(count):
            return False
        self._add(count)
        return True

    def give(self, count: int) -> None:
        """Give back."""
        self.used -= count
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, turn = self._waiting.popleft()
            if not turn.done():
                self._add(count)
                turn.set_result(None)

    def _fits(self, count: int) -> bool:
        return self.used == 0 or self.used + count <= self.limit

    def _add(self, count: int) -> None:
        self.used += count
        self.most = max(self.most, self.used)
