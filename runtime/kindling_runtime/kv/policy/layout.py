"""The bytes of an object: a header of fixed size, then its chunks, the last of the chain first.

An object holds a run of consecutive chunks of one chain, and is named by the last of them, its
anchor. The chunk `n` places before the anchor begins at `header + n * chunk`, so a reader who knows
a name knows every offset. Its size tells how many chunks an object has, and a checksum of each
whether they are what was written.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Checksum = Callable[[bytes | memoryview], bytes]
"""Eight bytes of some bytes."""

_MAGIC: Final = b"KINDLKV1"
_FIXED: Final = 32
_ENTRY: Final = 32
_SUM: Final = 8
_ALIGN: Final = 64
_IDENTITY: Final = 16


class DamagedError(Exception):
    """The bytes are not those that were written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One chunk: who it is and what its bytes add up to."""

    identity: bytes
    checksum: bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """Of the objects of one deployment: at most `slots` chunks of `chunk` bytes."""

    slots: int
    chunk: int

    @property
    def header(self) -> int:
        """Bytes before the first chunk."""
        size = _FIXED + _ENTRY * self.slots + _SUM
        return -(-size // _ALIGN) * _ALIGN

    def offset(self, back: int) -> int:
        """Where the chunk begins that is so many places before the anchor."""
        return self.header + back * self.chunk

    def size(self, count: int) -> int:
        """Of an object with so many chunks."""
        return self.offset(count)

    def count(self, size: int) -> int | None:
        """How many chunks an object of that size has; None if no object has that size."""
        chunks, rest = divmod(size - self.header, self.chunk)
        return chunks if rest == 0 and 1 <= chunks <= self.slots else None

    def encode(self, entries: Sequence[Entry], checksum: Checksum) -> bytes:
        """The header of an object; entries from the anchor back."""
        if not 1 <= len(entries) <= self.slots:
            raise ValueError(f"{len(entries)} chunks in an object of at most {self.slots}")
        fixed = _MAGIC + len(entries).to_bytes(4, "big") + self.slots.to_bytes(4, "big")
        fixed += self.chunk.to_bytes(8, "big")
        listed = b"".join(
            each.identity + each.checksum + self.chunk.to_bytes(8, "big") for each in entries
        )
        before = (fixed.ljust(_FIXED, b"\0") + listed).ljust(self.header - _SUM, b"\0")
        return before + checksum(before)

    def decode(self, data: bytes | memoryview, checksum: Checksum) -> tuple[Entry, ...]:
        """The entries of a header; raises DamagedError for anything that `encode` did not make."""
        view = memoryview(data)[: self.header]
        if len(view) < self.header:
            raise DamagedError(f"{len(view)} bytes instead of a header of {self.header}")
        before = view[:-_SUM]
        if bytes(view[-_SUM:]) != checksum(before):
            raise DamagedError("the header has another checksum")
        count = int.from_bytes(view[8:12], "big")
        slots, chunk = int.from_bytes(view[12:16], "big"), int.from_bytes(view[16:24], "big")
        if bytes(view[:8]) != _MAGIC or (slots, chunk) != (self.slots, self.chunk):
            raise DamagedError("the header is one of another layout")
        if not 1 <= count <= self.slots:
            raise DamagedError(f"the header lists {count} chunks")
        return tuple(self._entry(view, place) for place in range(count))

    def _entry(self, view: memoryview, place: int) -> Entry:
        at = _FIXED + place * _ENTRY
        length = int.from_bytes(view[at + 24 : at + 32], "big")
        if length != self.chunk:
            raise DamagedError(f"a chunk of {length} bytes instead of {self.chunk}")
        return Entry(bytes(view[at : at + _IDENTITY]), bytes(view[at + _IDENTITY : at + 24]))


def identity(key: bytes) -> bytes:
    """A chunk's key in a header, whatever its length."""
    return hashlib.blake2b(key, digest_size=_IDENTITY).digest()
