"""What running pods use of a cache, so that it is not evicted under them.

The container that fetches leaves `uses/POD/keys`; the engine's container has that folder mounted to
write and moves `uses/POD/beat` once a minute while it lives. The weights it can only read. A mark
that has stopped moving for a quarter of an hour holds nothing any more, so a crash pins nothing.
Age is the difference of two times that the file server has stamped: no pod's clock counts.
"""

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from kindling_runtime.weights.eviction import IDLE_SECONDS
from kindling_runtime.weights.volume import Volume

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 60.0


def mark(volume: Volume, owner: str, keys: Iterable[str]) -> None:
    """Say that this pod uses the folders `keys`, relative to the volume."""
    folder = volume.uses / owner
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keys").write_text("\n".join(keys), encoding="utf-8")
    _move(folder)


def in_use(volume: Volume, *, now: float) -> frozenset[str]:
    """The folders that living pods use; marks that stopped long ago are swept away."""
    used: set[str] = set()
    for folder in volume.uses.iterdir():
        try:
            age = now - (folder / "beat").stat().st_mtime
            keys = (folder / "keys").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        if age < IDLE_SECONDS:
            used.update(keys)
        elif age > 8 * IDLE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
    return frozenset(used)


def keep(folder: Path) -> None:
    """Move the mark in `folder` for as long as this process lives, in a thread of its own: a dead
    volume holds that thread up and nothing else."""
    threading.Thread(target=_keep, args=(folder,), daemon=True, name="weights-use").start()


def _keep(folder: Path) -> None:
    while True:
        try:
            _move(folder)
        except OSError as error:
            _log.warning("the mark of use in %s cannot be moved (%s)", folder, error.strerror)
        time.sleep(_BEAT_SECONDS)


def _move(folder: Path) -> None:
    beat = folder / "beat"
    with contextlib.suppress(FileExistsError):
        beat.touch(exist_ok=False)
    # Without times given, the server stamps its own.
    os.utime(beat)
