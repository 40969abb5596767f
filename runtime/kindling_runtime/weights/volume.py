"""Where things stand in a cache volume, and the file system calls that they need.

weights/KEY/          published: the files, and their manifest
partial/KEY/          on its way: the files as far as they are, and journals
leases/KEY.N          who downloads KEY; the highest N counts
uses/POD/             what a pod uses: `keys`, and `beat`, which it moves while it lives
kernels/…             what engines have compiled
trash/                renamed here, then deleted
"""

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kindling_runtime.contract import Reason
from kindling_runtime.weights.errors import FetchError

MANIFEST: Final = ".kindling.json"
JOURNAL: Final = ".kindling-journal."

_FEW_FILES: Final = 16
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Volume:
    """The folders of one cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.weights = root / "weights"
        self.partial = root / "partial"
        self.leases = root / "leases"
        self.uses = root / "uses"
        self.kernels = root / "kernels"
        self.trash = root / "trash"

    def prepare(self) -> None:
        """Make the folders; raises FetchError where this user may not."""
        try:
            for folder in (self.weights, self.partial, self.leases, self.uses, self.trash):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in FULL:
                raise full(self.root, error) from error
            raise FetchError(
                Reason.PREFLIGHT_FAILED,
                f"the cache volume {self.root} cannot be written by user {os.getuid()} "
                f"({error.strerror}); make it writable for that user or its group",
            ) from error

    def now(self) -> float:
        """The present on the file server's clock, which also stamps what other pods write."""
        probe = self.root / f".kindling-clock-{uuid.uuid4().hex}"
        try:
            probe.touch()
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def free(self) -> int:
        """Bytes that this user may still write."""
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize

    def remove(self, folder: Path) -> None:
        """Take a folder away in one step, then delete what is in it."""
        grave = self.trash / uuid.uuid4().hex
        with contextlib.suppress(FileNotFoundError):
            folder.rename(grave)
            _delete(grave)

    def sweep(self) -> None:
        """Delete what a removal left that was cut short."""
        for grave in self.trash.iterdir():
            _delete(grave)


def _delete(grave: Path) -> None:
    with contextlib.suppress(OSError):
        grave.unlink()
        return
    shutil.rmtree(grave, ignore_errors=True)


@contextlib.contextmanager
def told_when_full(root: Path) -> Iterator[None]:
    """Turn a full disk into the sentence about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise full(root, error) from error


def full(root: Path, error: OSError) -> FetchError:
    """The sentence about a volume that has no room: for bytes, or for one more file."""
    why, fix = os.strerror(error.errno or 0), "enlarge it or delete what others keep there"
    with contextlib.suppress(OSError):
        stat = os.statvfs(root)
        if stat.f_files and stat.f_favail < _FEW_FILES:
            why = f"of {stat.f_files} files that it may hold {stat.f_favail} are left"
            fix = "delete what others keep there or make it with more inodes"
    return FetchError(
        Reason.CACHE_FULL,
        f"the volume at {root} became full while weights were written ({why}); {fix}",
    )


def folder_bytes(folder: Path) -> int:
    """Bytes on disk of all files below; what disappears meanwhile counts nothing."""
    blocks = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                blocks += os.lstat(os.path.join(parent, name)).st_blocks  # noqa: PTH118
    return blocks * 512


def flush(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
