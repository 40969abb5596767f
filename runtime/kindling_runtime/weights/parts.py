"""What is to be fetched, cut into ranges: values and arithmetic only. All sizes in bytes."""

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

SMALL_PART: Final = 1 << 20
LARGE_PART: Final = 8 << 20
"""One request each: what a kill in mid-flight costs again, times the requests at once."""
_LARGE_FILE: Final = 256 << 20
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 1024
"""In bytes; a store's key has no more either (S3, Azure and GCS: 1,024)."""


_MD5: Final = re.compile(r'"?([0-9a-f]{32})"?')


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


def md5_in(etag: str) -> Checksum | None:
    """What an ETag of S3 or GCS says that the content hashes to, if it looks like that."""
    plain = _MD5.fullmatch(etag)
    return Checksum(Algorithm.MD5, plain[1]) if plain else None


def part_size(file: RemoteFile) -> int:
    """Bytes of a file's parts; a function of the file alone, so that a resumed fetch agrees."""
    return LARGE_PART if file.size >= _LARGE_FILE else SMALL_PART


def part_count(file: RemoteFile) -> int:
    """How many parts the file has; an empty one has none."""
    return -(-file.size // part_size(file))


def part_of(file: RemoteFile, index: int) -> Part:
    """One of them, 0 being the first."""
    start = index * part_size(file)
    return Part(file, index, start, min(start + part_size(file), file.size))


def parts_of(file: RemoteFile) -> Iterator[Part]:
    """The file from its start to its end, without gap or overlap. One by one: how large a file is,
    a store may say as it likes."""
    return (part_of(file, index) for index in range(part_count(file)))


def in_order(files: Iterable[RemoteFile]) -> tuple[RemoteFile, ...]:
    """The order of fetching: the small ones first, whose mistakes show early and cost little."""
    return tuple(sorted(files, key=lambda file: (file.size, file.path)))


def total(files: Iterable[RemoteFile]) -> int:
    """Bytes of all files."""
    return sum(file.size for file in files)


def done_bytes(files: Iterable[RemoteFile], done: Collection[tuple[str, int]]) -> int:
    """Bytes of the parts that `done` names by path and index."""
    named = {file.path: file for file in files}
    return sum(part_of(named[path], index).size for path, index in done if path in named)


def unsafe(path: str) -> bool:
    """Whether a name would lead out of its folder, or onto what the cache itself keeps there, or is
    one that no file can have (path_resolution(7))."""
    pieces = path.split("/")
    return (
        any(piece in {"", ".", ".."} or len(_bytes(piece)) > _LONGEST_NAME for piece in pieces)
        or pieces[0].startswith(".")
        or len(_bytes(path)) > _LONGEST_PATH
        or "\0" in path
        or not path.isprintable()
    )


def impossible(files: Sequence[RemoteFile]) -> RemoteFile | None:
    """One that no folder can hold beside the others: named twice, below another file, or of less
    than nothing."""
    names = {file.path for file in files}
    seen: set[str] = set()
    for file in files:
        above = (file.path[:at] for at, each in enumerate(file.path) if each == "/")
        if file.size < 0 or file.path in seen or any(folder in names for folder in above):
            return file
        seen.add(file.path)
    return None


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
