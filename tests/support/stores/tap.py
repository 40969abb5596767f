"""What a test can stop after so many bytes, and let go on."""

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Tap:
    """Of a server in the test's own event loop: the bytes that were `sent` so far."""

    sent: int = 0
    hangs_after: int | None = None
    """Once it has sent so many bytes it sends nothing more until `release`."""
    stuck: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it sends nothing."""
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Send on."""
        self.hangs_after = None
        self.released.set()

    async def may_send(self) -> None:
        """Wait while it sends nothing."""
        if self.hangs_after is not None and self.sent >= self.hangs_after:
            self.stuck.set()
            await self.released.wait()
