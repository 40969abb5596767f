"""What is to be fetched, cut into ranges: values and arithmetic only. All sizes in bytes."""

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

SMALL_PART: Final = 1 << 20
LARGE_PART: Final = 8 << 20
"""One request each: what a kill in mid-flight costs again, times the requests at once."""
_LARGE_FILE: Final = 256 << 20


class Algorithm(enum.StrEnum):
    """What a store's checksum is made with."""

    SHA256 = "sha256"
    """Of the content: Git LFS, and so every large file of an hf:// repository."""
    GIT_BLOB = "git-blob"
    """SHA-1 of `blob SIZE\\0` and the content: the small files of an hf:// repository."""
    MD5 = "md5"
    """Of the content, in an ETag that looks like one; objects encrypted with a key of the user's
    have ETags that look like it too and are none."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """What the store says that the content hashes to, in lower-case hex."""

    algorithm: Algorithm
    digest: str


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of the source: its path in the folder, and what tells that it is still the same.

    `etag` is the store's own name of the content; `checksum` is None where it gives none.
    """

    path: str
    size: int
    etag: str = ""
    checksum: Checksum | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a file: `start` inclusive, `end` exclusive."""

    file: RemoteFile
    index: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self.end - self.start


def part_size(file: RemoteFile) -> int:
    """Bytes of a file's parts; a function of the file alone, so that a resumed fetch agrees."""
    return LARGE_PART if file.size >= _LARGE_FILE else SMALL_PART


def parts_of(file: RemoteFile) -> tuple[Part, ...]:
    """The file from its start to its end, without gap or overlap; an empty file has no part."""
    step = part_size(file)
    starts = range(0, file.size, step)
    return tuple(
        Part(file, index, start, min(start + step, file.size)) for index, start in enumerate(starts)
    )


def in_order(files: Iterable[RemoteFile]) -> tuple[RemoteFile, ...]:
    """The order of fetching: the small ones first, whose mistakes show early and cost little."""
    return tuple(sorted(files, key=lambda file: (file.size, file.path)))


def total(files: Iterable[RemoteFile]) -> int:
    """Bytes of all files."""
    return sum(file.size for file in files)


def done_bytes(files: Iterable[RemoteFile], done: Collection[tuple[str, int]]) -> int:
    """Bytes of the parts that `done` names by path and index."""
    return sum(part.size for part in _all_parts(files) if (part.file.path, part.index) in done)


def _all_parts(files: Iterable[RemoteFile]) -> Iterator[Part]:
    return (part for file in files for part in parts_of(file))


def unsafe(path: str) -> bool:
    """Whether a name would lead out of its folder, or onto what the cache itself keeps there."""
    pieces = path.split("/")
    return any(piece in {"", ".", ".."} for piece in pieces) or pieces[0].startswith(".")
