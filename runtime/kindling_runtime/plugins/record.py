"""What became of the plugins: each process of the engine writes it to a file, process 1 reads them.

One file for each process, named by its id, appears whole or not at all. Process 1 gives each engine
a folder of its own.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kindling_runtime import foreign, wire
from kindling_runtime.contract import PluginState, PluginStatus
from kindling_runtime.kv import telling as caching
from kindling_runtime.plugins import telling

FOLDER_VARIABLE: Final = "KINDLING_PLUGINS_FOLDER"
FOLDER: Final = Path("/tmp/kindling/plugins")
_MOST_BYTES: Final = 1 << 20


def folder_of(environment: Mapping[str, str], *, process: str = "") -> Path:
    """Where processes with that environment write; `process` tells apart what runs beside it in
    the folder that nobody has chosen."""
    return Path(environment.get(FOLDER_VARIABLE) or FOLDER / process)


def write(folder: Path, states: Sequence[PluginStatus]) -> None:
    """Record the states of this process; raises OSError where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{os.getpid()}.part"
    unfinished.write_bytes(msgspec.json.encode(list(states)))
    unfinished.replace(folder / f"{os.getpid()}.json")


def forget(folder: Path) -> None:
    """Delete what processes of an earlier engine wrote."""
    for suffix in (".json", telling.SUFFIX, caching.SUFFIX):
        for file in folder.glob(f"*{suffix}"):
            with contextlib.suppress(OSError):
                file.unlink()


def read(folder: Path, names: Sequence[str]) -> tuple[PluginStatus, ...]:
    """The state of each plugin in `names` over all processes that have written.

    On only where it is on in all of them: a correction that one rank lacks is not made.
    """
    written = [status for file in sorted(folder.glob("*.json")) for status in _statuses(file)]
    return tuple(_over_all(name, [each for each in written if each.name == name]) for name in names)


def _over_all(name: str, found: Sequence[PluginStatus]) -> PluginStatus:
    if not found:
        why = "no process of the engine has loaded it"
        return PluginStatus(name=name, state=PluginState.PENDING, why=why)
    off = [each for each in found if each.state is PluginState.OFF]
    if not off or len(off) == len(found):
        return found[0]
    why = f"{off[0].why} (in {len(off)} of {len(found)} processes)"
    return PluginStatus(name=name, state=PluginState.OFF, why=why)


def _statuses(file: Path) -> list[PluginStatus]:
    try:
        return wire.decoded(foreign.content(file, most=_MOST_BYTES), list[PluginStatus]) or []
    except OSError:
        return []  # gone by now, or not ours
