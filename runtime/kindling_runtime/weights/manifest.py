"""What a published folder should hold, written beside the files and published with them."""

import enum
import os
from pathlib import Path

import msgspec

from kindling_runtime.weights import digests
from kindling_runtime.weights.parts import RemoteFile
from kindling_runtime.weights.volume import MANIFEST, flush


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
    """The manifest of a folder; None where there is none that can be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


def write(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in its place, whole or not at all."""
    draft = folder / f"{MANIFEST}.{os.getpid()}"
    draft.write_bytes(msgspec.json.encode(manifest))
    flush(draft)
    draft.rename(folder / MANIFEST)


def damaged(folder: Path, manifest: Manifest, *, thoroughly: bool = False) -> tuple[Entry, ...]:
    """The files that are not what they were: gone, of another size, or of other content.

    Content is read where the file was written to since, and of every file if `thoroughly`.
    """
    return tuple(e for e in manifest.files if _is_damaged(folder / e.path, e, thoroughly))


def _is_damaged(path: Path, entry: Entry, thoroughly: bool) -> bool:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return True
    if stat.st_size != entry.size:
        return True
    unread = stat.st_mtime_ns == entry.mtime_ns and not thoroughly
    return not unread and digests.of_file(path) != entry.blake3
