"""Room on the volume before a download: looked at, made, or missed in one sentence."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from kindling_runtime.contract import Reason
from kindling_runtime.weights import uses
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.eviction import IDLE_SECONDS, RESERVE, Entry, make_room
from kindling_runtime.weights.progress import size_text
from kindling_runtime.weights.volume import JOURNAL, MANIFEST, Volume, folder_bytes

_log = logging.getLogger(__name__)


def ensure(volume: Volume, *, need: int, key: str, budget: int | None, shared: bool) -> None:
    """Make room for `need` more bytes of `key`; raises FetchError when there is none.

    On a volume that the pod shares with nobody there is nothing to evict.
    """
    if shared:
        volume.sweep()
        _evict(volume, need=need, key=key, budget=budget)
        return
    free = volume.free()
    if need > free:
        raise FetchError(
            Reason.CACHE_FULL,
            f"{size_text(need)} of weights are to come and {volume.root} has {size_text(free)} "
            "free; give the pod's node more ephemeral storage or set spec.model.weights.cacheClaim",
        )


def _evict(volume: Volume, *, need: int, key: str, budget: int | None) -> None:
    now = volume.now()
    entries = tuple(_entries(volume, key=key, now=now))
    free = volume.free()
    room = make_room(entries, need=need, free=free, budget=budget)
    if not room.enough:
        used = sum(entry.bytes for entry in entries if entry.in_use)
        cap = "" if budget is None else f" of {size_text(budget)}"
        fix = (
            "raise spec.model.weights.cacheMaxBytes by that"
            if room.of_budget
            else "enlarge the claim by that or name another in spec.model.weights.cacheClaim"
        )
        raise FetchError(
            Reason.CACHE_FULL,
            f"{size_text(need)} of weights are to come, {size_text(RESERVE)} stay free, and the "
            f"cache{cap} at {volume.root} has {size_text(free)} free with {size_text(used)} in "
            f"use: {size_text(room.short)} are short; {fix}",
        )
    for victim in room.victims:
        _log.info("evicting %s, %s", victim.path, size_text(victim.bytes))
        volume.remove(volume.root / victim.path)


def _entries(volume: Volume, *, key: str, now: float) -> Iterator[Entry]:
    """Everything that may be evicted, with what is in use marked so."""
    used = uses.in_use(volume, now=now)
    for parent in (volume.weights, volume.partial, volume.kernels):
        for folder in parent.iterdir() if parent.is_dir() else ():
            path = f"{parent.name}/{folder.name}"
            last = _last_use(folder)
            writes = parent is volume.partial and now - last < IDLE_SECONDS
            mine = folder.name == key and parent is not volume.kernels
            yield Entry(path, folder_bytes(folder), last, mine or writes or path in used)


def _last_use(folder: Path) -> float:
    """The latest of what is touched at each use: manifest, journals, the folder itself."""
    moments = [0.0]
    for path in (folder, folder / MANIFEST, *folder.glob(f"{JOURNAL}*")):
        with contextlib.suppress(OSError):
            moments.append(path.stat().st_mtime)
    return max(moments)
