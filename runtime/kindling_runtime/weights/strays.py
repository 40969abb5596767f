"""What lies in a folder of weights and is none of them."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

_OWN: Final = ".kindling"
_SERVERS: Final = (".nfs", ".snapshot")
"""How names begin that file servers keep, and that cannot be removed: a file that is gone while
somebody reads it, and the folder of snapshots."""


def beside(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """The paths below `folder` that are neither one of `names` nor a folder above one; of a folder
    that is none, it alone. Links are not followed, and below a link there is nothing."""
    folders = {name[:at] for name in names for at, each in enumerate(name) if each == "/"}
    if not folder.is_symlink():
        yield from _beside(folder, "", frozenset(names), folders)


def _beside(
    folder: Path, above: str, names: Collection[str], folders: Collection[str]
) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except FileNotFoundError:
        return
    for name, is_folder in sorted(found):
        path = above + name
        if is_folder and path in folders:
            yield from _beside(folder / name, f"{path}/", names, folders)
        elif (is_folder or path not in names) and not _is_kept(path, name):
            yield folder / name


def _is_kept(path: str, name: str) -> bool:
    return path.startswith(_OWN) or name.startswith(_SERVERS)
