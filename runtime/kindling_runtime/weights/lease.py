"""One download per volume and key, by a lease that moves while its owner lives.

Leases of a key are numbered, and each number is created once (O_EXCL, which NFS has since v3): the
highest one counts, so taking over a dead one's is creating the next. Nothing is ever renamed or
deleted that another process could hold. Two owners at once, one of them paused or cut off for
longer than the limit, cost bytes and no more: both write the same ranges of the same content, and
publishing is one rename.
"""

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from kindling_runtime import foreign, wire
from kindling_runtime.weights.leasing import (
    BEAT_SECONDS,
    STALE_SECONDS,
    Sighting,
    holds,
    next_number,
)

_BYTES: Final = 512
"""A beat overwrites the same block, which works on a full disk too."""
_LONGEST_NUMBER: Final = 18


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner tells those who wait."""

    owner: str
    count: int = 0
    done: int = 0
    total: int = 0
    says: str = ""


class Lease:
    """A lease that this process holds until it is released, lost, or the process ends."""

    def __init__(self, path: Path, *, owner: str, number: int, handle: int) -> None:
        self.number = number
        self._path = path
        self._owner = owner
        self._handle = handle
        self._count = 0
        # A beat is made in a thread, which goes on when its waiter is cancelled.
        self._lock = threading.Lock()
        self._open = True

    def beat(self, *, done: int = 0, total: int = 0, says: str = "") -> None:
        """Show that the owner lives, and how far it is."""
        self._count += 1
        beat = Beat(owner=self._owner, count=self._count, done=done, total=total, says=says[:200])
        with self._lock:
            if self._open:
                _write(self._handle, beat)

    def is_mine(self, leases: "Leases") -> bool:
        """Whether nobody has taken over meanwhile."""
        return holds(self.number, leases.numbers())

    def release(self, leases: "Leases") -> None:
        """Let the next one in at once. Leases that were given up earlier go first."""
        for number in sorted(leases.numbers()):
            if number < self.number:
                # Of another user's, or what is no file, nothing depends on its end.
                with contextlib.suppress(OSError):
                    leases.path(number).unlink()
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """No more beats; the lease stays where it is."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._handle)


class Leases:
    """The leases of one key. `owner` is this pod: what it left behind itself, it takes at once."""

    def __init__(self, folder: Path, key: str, *, owner: str, limit: float = STALE_SECONDS) -> None:
        self._folder = folder
        self._key = key
        self._owner = owner
        self._seen: Sighting | None = None
        self.limit = limit

    def path(self, number: int) -> Path:
        """The file of a lease."""
        return self._folder / f"{self._key}.{number}"

    def numbers(self) -> tuple[int, ...]:
        """All leases that are there."""
        names = (path.name.rpartition(".") for path in self._folder.glob(f"{self._key}.*"))
        found = (
            wire.number(end, digits=_LONGEST_NUMBER) for key, _, end in names if key == self._key
        )
        return tuple(number for number in found if number is not None)

    def take(self) -> Lease | None:
        """The lease, if nobody holds it, the holder is dead, or this pod left it; else None."""
        numbers = self.numbers()
        if numbers and not self._given_up(max(numbers)):
            return None
        number = next_number(numbers)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            handle = os.open(self.path(number), flags, 0o644)
        except FileExistsError:
            return None
        lease = Lease(self.path(number), owner=self._owner, number=number, handle=handle)
        lease.beat()
        if lease.is_mine(self):
            return lease
        lease.close()
        return None

    def holder(self) -> Beat | None:
        """The last beat of who holds the lease; None where nobody does."""
        numbers = self.numbers()
        look = _read(self.path(max(numbers))) if numbers else b""
        return _beat(look)

    def _given_up(self, number: int) -> bool:
        """Whether the lease's owner is gone, as far as this process has seen."""
        look, now = _read(self.path(number)), time.monotonic()
        seen = self._seen or Sighting(number, look, now)
        self._seen = seen.again(number, look, now=now)
        beat = _beat(look)
        ours = beat is not None and beat.owner == self._owner
        return ours or self._seen.is_stale(now, limit=self.limit)


async def keep(lease: Lease, leases: Leases, tell: "Teller") -> None:
    """Beat until the lease is lost; then returns."""
    while True:
        if not await asyncio.to_thread(_beat_once, lease, leases, tell):
            return
        await asyncio.sleep(min(BEAT_SECONDS, leases.limit / 4))


class Teller:
    """What the beats say; the download changes it."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self.says = ""


def _beat_once(lease: Lease, leases: Leases, tell: Teller) -> bool:
    if not lease.is_mine(leases):
        return False
    lease.beat(done=tell.done, total=tell.total, says=tell.says)
    return True


def _write(handle: int, beat: Beat) -> None:
    os.pwrite(handle, msgspec.json.encode(beat).ljust(_BYTES)[:_BYTES], 0)
    # Elsewhere it counts when it is on the server.
    os.fsync(handle)


def _read(path: Path) -> bytes:
    """What the lease looks like: content and time, as the server stamps it."""
    with contextlib.suppress(OSError), foreign.opened(path) as file:
        stamp = os.fstat(file.fileno()).st_mtime_ns
        return file.read(_BYTES) + b"\0%d" % stamp
    return b""


def _beat(look: bytes) -> Beat | None:
    return wire.decoded(look.partition(b"\0")[0], Beat)
