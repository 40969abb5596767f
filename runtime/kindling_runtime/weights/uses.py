"""What running pods use of a cache, so that it is not evicted under them.

The container that fetches leaves `uses/POD/keys` and moves `uses/POD/beat` once a minute while it
downloads or waits; the engine's container has that folder mounted to write and does the same while
it lives. The weights it can only read. A mark that has stopped moving for a quarter of an hour
holds nothing any more, so a crash pins nothing; who was only cut off makes it whole again.
Age is the difference of two times that the file server has stamped: no pod's clock counts.
"""

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kindling_runtime import foreign
from kindling_runtime.contract import Fetch
from kindling_runtime.weights.eviction import IDLE_SECONDS
from kindling_runtime.weights.volume import Volume

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 60.0
_LONGEST_KEYS = 1 << 20
FORGOTTEN_SECONDS: Final = 7 * 86400.0
"""A mark that has not moved for so long is swept away: not sooner, because the engine's container
has its folder mounted and could not make it again."""


def keys_of(fetch: Fetch | None) -> tuple[str, ...]:
    """The folders that a pod uses, relative to the volume."""
    if fetch is None:
        return ()
    return (*((f"weights/{fetch.key}",) if fetch.key else ()), *filter(None, (fetch.kernels,)))


def mark(folder: Path, keys: Iterable[str]) -> None:
    """Say in `folder` that this pod lives and uses `keys`, whatever of that is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(keys).encode()
    if _content(folder / "keys") != text:
        # By a rename: whoever reads it meanwhile would find it empty.
        draft = folder / f"keys.{os.getpid()}"
        draft.write_bytes(text)
        draft.rename(folder / "keys")
    _move(folder)


def in_use(volume: Volume, *, now: float) -> frozenset[str]:
    """The folders that living pods use; marks that stopped long ago are swept away."""
    used: set[str] = set()
    for folder in volume.uses.iterdir():
        try:
            age = now - (folder / "beat").stat().st_mtime
            if age < -IDLE_SECONDS:
                # The server's clock was set back. Nobody can tell whether that pod lives: from now
                # on its mark has to move again.
                os.utime(folder / "beat")
        except OSError:
            continue
        if age < IDLE_SECONDS:
            used.update((_content(folder / "keys") or b"").decode(errors="replace").splitlines())
        elif age > FORGOTTEN_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
    return frozenset(used)


def keep(folder: Path, keys: Iterable[str]) -> threading.Event:
    """Keep the mark in `folder` whole and moving, until the event is set or this process ends, in a
    thread of its own: a dead volume holds that thread up and nothing else."""
    ended = threading.Event()
    of = (folder, tuple(keys), ended)
    threading.Thread(target=_keep, args=of, daemon=True, name="weights-use").start()
    return ended


def _keep(folder: Path, keys: tuple[str, ...], ended: threading.Event) -> None:
    while True:
        try:
            mark(folder, keys)
        except OSError as error:
            _log.warning("the mark of use in %s cannot be moved (%s)", folder, error.strerror)
        if ended.wait(_BEAT_SECONDS):
            return


def _content(path: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return foreign.content(path, most=_LONGEST_KEYS)
    return None


def _move(folder: Path) -> None:
    beat = folder / "beat"
    with contextlib.suppress(FileExistsError):
        beat.touch(exist_ok=False)
    # Without times given, the server stamps its own.
    os.utime(beat)
