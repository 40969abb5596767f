"""The tier tells how it stands: a file for each process of the engine, which process 1 reads.

Beside what the plugins write, and as they do: a file appears whole or not at all.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from kindling_runtime import foreign, wire
from kindling_runtime.contract import CacheReason, CacheStatus

SUFFIX: Final = ".cache"
_MOST_BYTES: Final = 1 << 16


def write(folder: Path, status: CacheStatus) -> None:
    """How the tier of this process stands; raises OSError where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{os.getpid()}.caching"
    unfinished.write_bytes(msgspec.json.encode(status))
    unfinished.replace(folder / f"{os.getpid()}{SUFFIX}")


def read(folder: Path) -> CacheStatus | None:
    """Of all engines of the pod together: ready where each is; None where none has a tier."""
    told = [status for file in sorted(folder.glob(f"*{SUFFIX}")) for status in _status(file)]
    if not told:
        return None
    worst = min(told, key=lambda each: (each.ready, each.reason is CacheReason.UNPROVEN))
    return msgspec.structs.replace(
        worst,
        prompt_tokens=sum(each.prompt_tokens for each in told),
        hit_tokens=sum(each.hit_tokens for each in told),
        loaded_bytes=sum(each.loaded_bytes for each in told),
        stored_bytes=sum(each.stored_bytes for each in told),
    )


def _status(file: Path) -> list[CacheStatus]:
    try:
        status = wire.decoded(foreign.content(file, most=_MOST_BYTES), CacheStatus)
    except OSError:
        return []  # gone by now, or not ours
    return [] if status is None else [status]
