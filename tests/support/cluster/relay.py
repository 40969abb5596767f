#!/usr/bin/env python3
"""Carry TCP connections from this machine's 127.0.0.1 into the cluster's network namespace.

A socket stays in the network namespace where it was made, whoever holds it. So the relay needs no
privileges at run time and no second process:

    relay.py listen PORT... -- COMMAND...   in the machine's network: make the listening sockets,
                                            give them to COMMAND as file descriptors 5, 6, ...
    relay.py serve FD=HOST:PORT...          in the cluster's network: accept there, connect here

SIGUSR1 makes a serving relay close every connection that it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys

FIRST_FD = 5
BUFFER = 1 << 18
CONNECT_SECONDS = 10.0


def listen(*, ports: list[int], command: list[str]) -> None:
    """Replace this process by `command`, which inherits one listening socket for each port."""
    sockets = []
    for port in ports:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise SystemExit(
                f"port {port} of 127.0.0.1, kept for this cluster, is taken ({error.strerror}): "
                "end the program that listens on it, or run `cluster down --purge` for new ports"
            ) from error
        listener.listen(512)
        sockets.append(listener)
    # first all of them out of the way of the final numbers, then each to its own
    high = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(sockets)]
    for i, fd in enumerate(high):
        os.dup2(fd, FIRST_FD + i, inheritable=True)
        os.close(fd)
    os.execvp(command[0], command)


class Relay:
    """One listening socket and the connections that came through it."""

    def __init__(self, *, listener: socket.socket, host: str, port: int) -> None:
        self._listener = listener
        self._target = (host, port)
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            client, _ = await loop.sock_accept(self._listener)
            task = asyncio.create_task(self._carry(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    def cut(self) -> None:
        """Close every connection; new ones are taken as before."""
        print(f"cutting {len(self._connections)} connections to {self._target}", flush=True)
        for task in self._connections:
            task.cancel()

    async def _carry(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with client, socket.socket() as server, contextlib.suppress(OSError, TimeoutError):
            for end in (client, server):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.sock_connect(server, self._target)
            async with asyncio.TaskGroup() as group:
                group.create_task(pump(client, server))
                group.create_task(pump(server, client))


async def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy one direction until its end, and hand the end on. A broken connection ends both."""
    loop = asyncio.get_running_loop()
    buffer = memoryview(bytearray(BUFFER))
    while count := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(sink, buffer[:count])
    sink.shutdown(socket.SHUT_WR)


async def serve(targets: list[str]) -> None:
    """Serve every FD=HOST:PORT of `targets` until the process is killed."""
    relays = []
    for target in targets:
        fd, _, address = target.partition("=")
        host, _, port = address.rpartition(":")
        relays.append(Relay(listener=socket.socket(fileno=int(fd)), host=host, port=int(port)))

    def cut() -> None:
        for relay in relays:
            relay.cut()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, cut)
    await asyncio.gather(*(relay.serve() for relay in relays))


def main(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    match arguments:
        case ["listen", *rest] if "--" in rest:
            at = rest.index("--")
            listen(ports=[int(port) for port in rest[:at]], command=rest[at + 1 :])
        case ["serve", *targets] if targets:
            asyncio.run(serve(targets))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
