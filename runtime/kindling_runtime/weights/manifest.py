"""What a published folder should hold, written beside the files and published with them."""

import enum
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kindling_runtime import foreign, wire
from kindling_runtime.weights import digests, strays
from kindling_runtime.weights.parts import RemoteFile, md5_in, unsafe
from kindling_runtime.weights.volume import MANIFEST, flush

_LONGEST: Final = 64 << 20
_DRAFT: Final = f"{MANIFEST}."


class Basis(enum.StrEnum):
    """What a file's content was compared with when it came."""

    STORE = "Store"
    """The store's own checksum."""
    LENGTH = "Length"
    """Its length, and the store's ETag at each range; the store gives no checksum."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file: `mtime_ns` as it was published, `blake3` of its content."""

    path: str
    size: int
    mtime_ns: int
    blake3: str
    etag: str = ""
    basis: Basis = Basis.LENGTH


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A published folder. `resolved` is the commit that a branch stood for, "" elsewhere.

    `config_uri` is where config and tokenizer are from, "" if from `uri` too.
    """

    uri: str
    revision: str
    resolved: str = ""
    config_uri: str = ""
    config_resolved: str = ""
    files: tuple[Entry, ...] = ()

    @property
    def doubted(self) -> tuple[str, ...]:
        """The files whose content does not fit the MD5 that their ETag looks like."""
        return tuple(
            entry.path
            for entry in self.files
            if entry.basis is Basis.LENGTH and md5_in(entry.etag) is not None
        )

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(entry.size for entry in self.files)


def entry_of(
    path: Path, file: RemoteFile, *, blake3: str, basis: Basis, at: str | None = None
) -> Entry:
    """The entry of a file that stands at `path` with checked content."""
    return Entry(
        path=at or file.path,
        size=file.size,
        mtime_ns=path.stat().st_mtime_ns,
        blake3=blake3,
        etag=file.etag,
        basis=basis,
    )


def read(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is none that can be read, or one that the fetch
    never writes: without a file, or of files elsewhere."""
    try:
        found = wire.decoded(foreign.content(folder / MANIFEST, most=_LONGEST), Manifest)
    except OSError:
        return None
    if found is None or not found.files or any(unsafe(entry.path) for entry in found.files):
        return None
    return found


def drafts(folder: Path) -> Iterator[Path]:
    """What a kill has left of manifests that were to be written."""
    return folder.glob(f"{_DRAFT}*")


def write(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in its place, whole or not at all."""
    draft = folder / f"{_DRAFT}{os.getpid()}"
    draft.write_bytes(msgspec.json.encode(manifest))
    flush(draft)
    draft.rename(folder / MANIFEST)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a published folder compares with its manifest: the files that are not what they were, and
    the paths that it does not name, which an engine would load like the others."""

    manifest: Manifest
    damaged: tuple[Entry, ...]
    strays: tuple[Path, ...]

    @property
    def whole(self) -> bool:
        """Whether it holds what it should and nothing else."""
        return not self.damaged and not self.strays

    def __str__(self) -> str:
        wrong = [
            (self.damaged, "are damaged, fetching them", [entry.path for entry in self.damaged]),
            (self.strays, "are none of the weights, removing them", [p.name for p in self.strays]),
        ]
        return "; ".join(
            f"{len(each)} files in the cache {what}: {', '.join(names[:3])}"
            for each, what, names in wrong
            if each
        )


def standing(folder: Path, manifest: Manifest, *, thoroughly: bool = False) -> Standing:
    """How `folder` stands. Damaged is what is gone, of another size, or of other content.

    Content is read where the file was written to since, and of every file if `thoroughly`.
    """
    names = [entry.path for entry in manifest.files]
    return Standing(
        manifest,
        tuple(e for e in manifest.files if _is_damaged(folder / e.path, e, thoroughly)),
        tuple(strays.beside(folder, names)),
    )


def _is_damaged(path: Path, entry: Entry, thoroughly: bool) -> bool:
    try:
        has = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    if not stat.S_ISREG(has.st_mode) or has.st_size != entry.size:
        return True
    unread = has.st_mtime_ns == entry.mtime_ns and not thoroughly
    return not unread and digests.of_file(path) != entry.blake3
