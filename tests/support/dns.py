"""A name server of a test's own, and processes that ask it and nobody else."""

import asyncio
import contextlib
import os
import shlex
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

_HEADER: Final = struct.Struct("!6H")
_ANSWER, _UNKNOWN = 0x8180, 0x8183
_A: Final = 1


class NameServer(asyncio.DatagramProtocol):
    """Answers for the names in `addresses`, of which each has one IPv4 address, and says that
    there is no other; silent where `silent` has the name."""

    def __init__(self, address: str, addresses: dict[str, str]) -> None:
        self.address = address
        self.addresses = addresses
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.closed = asyncio.Event()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """As in DatagramProtocol."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """As in DatagramProtocol."""
        self.closed.set()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """As in DatagramProtocol."""
        number, *_ = _HEADER.unpack_from(data)
        name, end = _name(data, _HEADER.size)
        question = data[_HEADER.size : end + 4]
        self.asked.append(name)
        if name in self.silent:
            return
        [kind] = struct.unpack_from("!H", data, end)
        found = self.addresses.get(name)
        record = b""
        if found is not None and kind == _A:
            octets = bytes(map(int, found.split(".")))
            record = struct.pack("!HHHIH", 0xC00C, _A, 1, 0, 4) + octets
        flags = _UNKNOWN if found is None else _ANSWER
        head = _HEADER.pack(number, flags, 1, int(bool(record)), 0, 0)
        self._transport.sendto(head + question + record, addr)

    def prefix(self, folder: Path, *, seconds: int = 1) -> tuple[str, ...]:
        """What comes before a command whose process is to ask this server, and waits so many
        `seconds` for it, at most 30 (resolv.conf(5)); `folder` is its own."""
        file = folder / "resolv.conf"
        file.write_text(f"nameserver {self.address}\noptions timeout:{seconds} attempts:1\n")
        bind = f'mount --bind {shlex.quote(str(file))} /etc/resolv.conf && exec "$@"'
        return ("unshare", "--mount", "sh", "-c", bind, "sh")


@contextlib.asynccontextmanager
async def name_server(addresses: dict[str, str]) -> AsyncIterator[NameServer]:
    """One that listens while the context lasts; without root the test is skipped."""
    if os.getuid() != 0:
        pytest.skip("port 53, and a file in the place of /etc/resolv.conf, need root")
    pid = os.getpid()
    address = f"127.53.{pid >> 8 & 255}.{pid & 255}"
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(address, addresses), local_addr=(address, 53)
    )
    try:
        yield server
    finally:
        transport.close()
        await server.closed.wait()


def _name(data: bytes, at: int) -> tuple[str, int]:
    """The name that begins there, and where what follows it begins."""
    labels = []
    while size := data[at]:
        labels.append(data[at + 1 : at + 1 + size].decode())
        at += 1 + size
    return ".".join(labels).lower(), at + 1
