"""The bytes of files: fetched in ranges, several at once, each file hashed in its order.

Memory is bounded by `SLOTS` buffers of 8 MiB, which are used again and again: what a client hands
out in pieces would leave the heap in shreds if it were kept. Parts take their buffers in the order
of the file and give them back once they are hashed, so the part that a file waits for has one.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from kindling_runtime.contract import Reason
from kindling_runtime.weights import backoff, manifest
from kindling_runtime.weights.board import Board
from kindling_runtime.weights.digests import Buffer, Digests, own_digest
from kindling_runtime.weights.errors import FetchError, TransientError
from kindling_runtime.weights.journal import Done, Journal
from kindling_runtime.weights.manifest import Basis, Entry
from kindling_runtime.weights.parts import (
    LARGE_PART,
    Algorithm,
    Part,
    RemoteFile,
    in_order,
    parts_of,
)
from kindling_runtime.weights.store import REQUEST_SECONDS, Listing, Store
from kindling_runtime.weights.volume import flush, told_when_full

SLOTS: Final = 10
_FILES_AT_ONCE: Final = 3
_FLUSH_BYTES: Final = 128 << 20
"""So far apart in a file, what was written goes to the disk: the disk works while bytes come, and
not after the last one (2 GiB on loopback: 4.2 instead of 5.3 s)."""
_WRITE_BYTES: Final = 128 << 10
"""In one call. Larger ones make Linux 6.18 look for larger folios, whose memory a virtual machine
may have given back to its host (2 GiB: 3.7 instead of 7.8 s in the kernel)."""
_Coming = asyncio.Queue[tuple[asyncio.Task[memoryview], bytearray] | None]


class Download:
    """Brings files of one store into one folder."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        journal: Journal,
        done: Done,
        board: Board,
        stall_seconds: float,
    ) -> None:
        self._store = store
        self._folder = folder
        self._journal = journal
        self._done = done
        self._kept = {path for path, _ in done}
        self._board = board
        self._stall = stall_seconds
        self._buffers: asyncio.Queue[bytearray] = asyncio.Queue()
        for _ in range(SLOTS):
            self._buffers.put_nowait(bytearray(LARGE_PART))
        self._files = asyncio.Semaphore(_FILES_AT_ONCE)

    async def run(self, files: Sequence[RemoteFile]) -> tuple[Entry, ...]:
        """Fetch what is missing of `files` and check all; returns their entries in that order.

        Raises FetchError, ChangedError, and OSError of the volume.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch())
                fetching = [tasks.create_task(self._in_turn(file)) for file in in_order(files)]
                entries = {entry.path: entry for entry in [await task for task in fetching]}
                watching.cancel()
        except BaseExceptionGroup as group:
            raise _first(group) from None
        return tuple(entries[file.path] for file in files)

    async def _watch(self) -> None:
        """Fail once nothing has moved for too long. A slow store is waited for: each byte pays for
        a millisecond."""
        while True:
            await asyncio.sleep(min(1.0, self._stall / 4))
            meter = self._board.meter
            if meter is not None and self._board.idle(most=self._stall) >= self._stall:
                idle = time.monotonic() - meter.moved
                raise FetchError(
                    Reason.STORE_STALLED,
                    f"{self._board.lack} for {int(idle)} s, after "
                    f"{meter.sentence(meter.moved).partition(',')[0]} ({self._board.excuse}); see "
                    "whether the store answers and the pod's network lets it",
                )

    async def _in_turn(self, file: RemoteFile) -> Entry:
        async with self._files:
            first = await self._file(file, self._done)
            if not isinstance(first, str):
                return first
            # What came is not what the store's checksum says: once more, all of it.
            self._board.lost(file.size)
            second = await self._file(file, {}, before=first)
            if not isinstance(second, str):
                return second
        raise FetchError(
            Reason.CHECKSUM_MISMATCH,
            f"{file.path} has come twice with a content that its checksum "
            f"{file.checksum and file.checksum.digest[:16]} does not fit; upload it again",
        )

    async def _file(self, file: RemoteFile, done: Done, before: str = "") -> Entry | str:
        """One file, checked; the hash of what came, if that is not what it should be.

        `before` is the hash of an earlier try.
        """
        path = self._folder / file.path
        anew = not done or file.path not in self._kept
        handle = await asyncio.to_thread(_open, self._folder, file.path, file.size, anew=anew)
        digests = Digests(file)
        async with asyncio.TaskGroup() as tasks:
            coming: _Coming = asyncio.Queue()
            tasks.create_task(self._start_parts(file, handle, done, tasks=tasks, coming=coming))
            while (next_part := await coming.get()) is not None:
                task, buffer = next_part
                await asyncio.to_thread(digests.update, await task)
                self._board.touch()
                self._buffers.put_nowait(buffer)
        await asyncio.to_thread(os.fsync, handle)
        # Not closed where something has failed: a thread may still write to it, and the number
        # would soon be another file's.
        os.close(handle)
        basis = _basis(file, digests, before)
        if basis is None:
            return digests.own
        return manifest.entry_of(path, file, blake3=digests.own, basis=basis)

    async def _start_parts(
        self,
        file: RemoteFile,
        handle: int,
        done: Done,
        *,
        tasks: asyncio.TaskGroup,
        coming: "_Coming",
    ) -> None:
        """Set the parts going in their order, as slots become free."""
        for part in parts_of(file):
            buffer = await self._buffers.get()
            room = memoryview(buffer)[: part.size]
            known = done.get((file.path, part.index))
            coming.put_nowait((tasks.create_task(self._part(part, handle, known, room)), buffer))
        coming.put_nowait(None)

    async def _part(
        self, part: Part, handle: int, known: str | None, room: memoryview
    ) -> memoryview:
        """One part in `room`: from the disk if it is there as noted, else from the store."""
        if known is not None:
            await asyncio.to_thread(os.preadv, handle, [room], part.start)
            if await asyncio.to_thread(own_digest, room) == known:
                self._board.touch()
                return room
            self._board.lost(part.size)
        await self._ask(part, room)
        await asyncio.to_thread(self._keep, part, handle, room)
        return room

    def _keep(self, part: Part, handle: int, content: memoryview) -> None:
        with told_when_full(self._folder.parent.parent):
            _write(handle, content, part.start)
            if part.end // _FLUSH_BYTES > part.start // _FLUSH_BYTES:
                os.fdatasync(handle)
            self._journal.add(part, own_digest(content))

    async def _ask(self, part: Part, room: memoryview) -> None:
        """The part's bytes from the store, asked for again from where they stopped."""
        have, attempt = 0, 0
        while have < part.size:
            try:
                async for piece in _impatiently(self._store.read(part, skip=have)):
                    if have + len(piece) > part.size:
                        raise TransientError(f"more bytes came than the {part.size} asked for")
                    room[have : have + len(piece)] = piece
                    have += len(piece)
                    attempt = 0
                    self._board.arrived(len(piece))
                if have != part.size:
                    raise TransientError(f"{have} bytes came of a range of {part.size}")
            except TransientError as error:
                attempt += 1
                self._board.last_problem = str(error)
                self._board.put_off(error.wait)
                await asyncio.sleep(backoff.drawn_wait(attempt, asked=error.wait))


async def patiently(store: Store, *, board: Board, stall_seconds: float) -> Listing:
    """The store's listing, asked for again while it may help; raises FetchError once that has not
    for `stall_seconds`, to which as many come if the store asks for them."""
    begun, attempt = time.monotonic(), 0
    until = begun + stall_seconds
    while True:
        attempt += 1
        asked = 0.0
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                return await store.listing()
        except TransientError as error:
            board.last_problem, asked = str(error), error.wait
        except TimeoutError:
            silent = board.last_problem or "it accepts and does not answer"
            board.last_problem = _unending(store.come) if store.come else silent
        wait = backoff.drawn_wait(attempt, asked=asked)
        until = min(until + asked, begun + 2 * stall_seconds)
        if time.monotonic() + wait >= until:
            if asked:  # the next pod would only be told the same
                await asyncio.sleep(max(0.0, until - time.monotonic()))
            raise FetchError(
                Reason.STORE_STALLED,
                f"the store has not listed the weights for {until - begun:.0f} s, in {attempt} "
                f"attempts ({board.last_problem}); see whether it answers and the pod's network "
                "lets it",
            )
        await asyncio.sleep(wait)


def _unending(count: int) -> str:
    return f"it has listed {count} files by now, and does not end"


async def _impatiently(pieces: AsyncIterator[Buffer]) -> AsyncIterator[Buffer]:
    """The same pieces; raises TransientError when the next one does not come in time."""
    while True:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TransientError(f"hardly a byte came for {REQUEST_SECONDS:.0f} s") from None
        yield piece


def _basis(file: RemoteFile, digests: Digests, before: str) -> Basis | None:
    """What the content was compared with; None where it is not what it should be.

    An ETag that looks like an MD5 may be none: that it does not fit is believed only if the same
    file does not come a second time.
    """
    if file.checksum is None:
        return Basis.LENGTH
    if digests.stores == file.checksum.digest:
        return Basis.STORE
    again = file.checksum.algorithm is Algorithm.MD5 and digests.own == before
    return Basis.LENGTH if again else None


def _open(folder: Path, name: str, size: int, *, anew: bool) -> int:
    """The file at its full size, without blocks where nothing was written. Never one elsewhere:
    whoever may write to the volume may have left links in it. One of which nothing is kept is made
    `anew`: who downloaded it under an earlier lease, was frozen and goes on, would write there what
    the store had then."""
    path = folder / name
    with told_when_full(folder.parent.parent):
        for place in (path, *path.parents):
            if place == folder:
                break
            if place.is_symlink():
                place.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if anew:
            path.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(path, flags, 0o644)
        os.ftruncate(handle, size)
        flush(path.parent)
    return handle


def _write(handle: int, content: memoryview, offset: int) -> None:
    while content:
        count = os.pwrite(handle, content[:_WRITE_BYTES], offset)
        content, offset = content[count:], offset + count


def _first(error: BaseException) -> BaseException:
    """What went wrong first, out of the groups that tasks wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
