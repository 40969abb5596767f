"""Images built by the repository's own script, and commands inside them."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.cache import cache_folder
from tests.support.onenode import ROOT, run

PARTS: Final = ("images", "operator", "runtime", "tests/support/cluster/lib")
FILES: Final = ("pyproject.toml", ".containerignore")
BUILD_SECONDS: Final = 25 * 60
COMMAND_SECONDS: Final = 300


def build(image: str, *options: str | Path, root: Path = ROOT) -> str:
    """Reference of the image in the local storage; raises CommandError if it cannot be built."""
    out = run(root / "images" / "build", *options, image, seconds=BUILD_SECONDS, say=print)
    return out.strip().removeprefix(f"{image}=")


def copy_of_repository(folder: Path) -> Path:
    """The parts that the image scripts read, to change at will; the environment is shared."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, folder / file)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@contextmanager
def container(reference: str) -> Iterator[str]:
    """A container of an image, removed at the end; its name."""
    name = f"kindling-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    _buildah("from", "--pull-never", "--name", name, reference)
    try:
        yield name
    finally:
        _buildah("rm", name)


def inside(
    name: str,
    *command: str,
    given: str = "",
    volumes: Mapping[Path, str] | None = None,
    writable: Mapping[Path, str] | None = None,
    prefix: Sequence[str] = (),
    seconds: int = COMMAND_SECONDS,
) -> str:
    """stdout of a command in a container, as the image's own user; `volumes` are read only.

    `prefix` comes before the program that enters the container.
    """
    mounts = [f"--volume={folder}:{at}:ro" for folder, at in (volumes or {}).items()]
    mounts += [f"--volume={folder}:{at}" for folder, at in (writable or {}).items()]
    entering = ("run", "--isolation", "chroot", *mounts, name, "--")
    return _buildah(*entering, *command, given=given, prefix=prefix, seconds=seconds)


def _buildah(
    *arguments: str, given: str = "", prefix: Sequence[str] = (), seconds: int = COMMAND_SECONDS
) -> str:
    done = subprocess.run(
        [*prefix, ROOT / "images" / "lib" / "buildah", *arguments],
        env={**os.environ, "CACHE": str(cache_folder())},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr[-2000:]}"
    return done.stdout
