"""The Python of vLLM 0.33.0's CUDA wheel without its libraries; it runs on the CPU image's torch.

Production is 0.33, and the newest build for CPU is 0.32. The wheel is the one that the lock of the
CUDA image names, with its hash. `python -m tests.support.kv.vllm33` makes it.
"""

import fcntl
import hashlib
import itertools
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.cache import cache_folder
from tests.support.onenode import ROOT, run

_LOCK: Final = ROOT / "images/runtime/requirements.lock"
_SECONDS: Final = 20 * 60


@cache
def wheel() -> Path:
    """A folder to be put on the path before the image's own vLLM."""
    pinned = _pinned()
    name = f"vllm-{hashlib.sha256(pinned.encode()).hexdigest()[:12]}"
    folder = cache_folder() / "bin" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".vllm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(pinned, folder.with_suffix(".new"))
            folder.with_suffix(".new").rename(folder)
    return folder


def _pinned() -> str:
    """The lines of the lock about vLLM."""
    lines = _LOCK.read_text().splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("vllm==")]
    rest = itertools.takewhile(lambda line: line.startswith(" "), lines[at + 1 :])
    return "\n".join([lines[at], *rest]) + "\n"


def _install(pinned: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "requirements.txt").write_text(pinned)
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    run(
        *(uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes"),
        *("--python", sys.executable, "--target", folder),
        *("--requirements", folder / "requirements.txt"),
        seconds=_SECONDS,
    )
    for library in folder.rglob("*.so"):
        library.unlink()


if __name__ == "__main__":
    print(wheel())
