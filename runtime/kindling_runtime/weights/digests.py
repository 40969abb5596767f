"""The checksums of a file's content, made in its order."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from kindling_runtime.weights.parts import Algorithm, RemoteFile

Buffer = bytes | bytearray | memoryview

_READ_BYTES = 8 << 20


class _Hash(Protocol):
    def update(self, data: Buffer, /) -> object: ...

    def hexdigest(self) -> str: ...


class Digests:
    """Our own hash of one file (BLAKE3), and the store's where it gives one."""

    def __init__(self, file: RemoteFile) -> None:
        self._own: _Hash = blake3()
        self._stores = _stores_hash(file)

    def update(self, data: Buffer) -> None:
        """The next bytes of the file."""
        self._own.update(data)
        if self._stores is not None:
            self._stores.update(data)

    @property
    def own(self) -> str:
        """BLAKE3 of what was given, in hex."""
        return self._own.hexdigest()

    @property
    def stores(self) -> str | None:
        """The store's kind of checksum of what was given; None where it has none."""
        return None if self._stores is None else self._stores.hexdigest()


def own_digest(data: Buffer) -> str:
    """BLAKE3 in hex."""
    return blake3(data).hexdigest()


def of_file(path: Path) -> str:
    """BLAKE3 of a file on disk, in hex."""
    hasher = blake3()
    for piece in _pieces(path):
        hasher.update(piece)
    return hasher.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_READ_BYTES):
            yield piece


def _stores_hash(file: RemoteFile) -> _Hash | None:
    if file.checksum is None:
        return None
    match file.checksum.algorithm:
        case Algorithm.SHA256:
            return hashlib.sha256()
        case Algorithm.MD5:
            return hashlib.md5(usedforsecurity=False)
        case Algorithm.GIT_BLOB:
            return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
