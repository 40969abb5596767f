"""A TCP relay on loopback in the test's own event loop: counts what comes back, and can stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.support.stores.tap import Tap

_CHUNK = 1 << 16


@dataclass(slots=True, kw_only=True)
class Relay(Tap):
    """`connections` so far; what is sent to clients is counted and can be stopped."""

    port: int = 0
    connections: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    joined: set[asyncio.Task[None]] = field(default_factory=set)

    def hang_after(self, count: int) -> None:
        """Stop once so many bytes more have been sent."""
        self.stuck.clear()
        self.released.clear()
        self.hangs_after = self.sent + count

    def cut(self) -> None:
        """End all connections; what they still hold is neither sent nor counted."""
        for writer in tuple(self.open):
            writer.transport.abort()


@contextlib.asynccontextmanager
async def relayed(target: int) -> AsyncIterator[Relay]:
    """Pass connections on to a port of 127.0.0.1 while the context lasts."""
    relay = Relay()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay.connections += 1
        if (task := asyncio.current_task()) is not None:
            relay.joined.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", target)
        relay.open |= {writer, back}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass(reader, back, None))
                tasks.create_task(_pass(there, writer, relay))
        except* OSError:
            pass
        finally:
            relay.open -= {writer, back}
            back.close()
            writer.close()

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        relay.release()
        relay.cut()
        await asyncio.gather(*relay.joined)


async def _pass(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, relay: Relay | None
) -> None:
    while piece := await source.read(_CHUNK):
        if relay:
            await relay.may_send()
        target.write(piece)
        await target.drain()
        if relay:
            relay.sent += len(piece)
    with contextlib.suppress(OSError):
        target.write_eof() if target.can_write_eof() else target.close()
