"""How long the demo took, step by step; `make bench` reads the last run of each kind."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.support.cache import cache_folder
from tests.support.onenode import COMMAND, ROOT, CommandError, run
from tests.support.waiting import Say

IMAGES: Final = ("operator", "runtime-cpu")


class Kind(StrEnum):
    """What was there when a run began. Only warm and cold can be compared with other runs."""

    COLD = "cold"
    """Nothing: neither programs nor images, nor what they are made from."""
    PARTIAL = "partial"
    """Some of it: how long the rest takes says nothing about a cold or a warm run."""
    WARM = "warm"
    """Everything is built, and the cluster's registry is kept: it only has to be started."""
    AGAIN = "again"
    """The cluster is up."""


def kind_of_run(cluster: str) -> Kind:
    """What a run of the demo on the named cluster would find now; starts and builds nothing."""
    cache = cache_folder()
    if run(COMMAND, "missing", "core", seconds=60):
        sources = (cache / "bin", cache / "images" / "storage", cache / "wheels", _go_cache())
        return Kind.PARTIAL if any(map(_holds_something, sources)) else Kind.COLD
    if run(ROOT / "images" / "build", "--missing", *IMAGES, seconds=300):
        return Kind.PARTIAL
    if not _holds_something(cache / "cluster" / cluster / "var" / "lib" / "registry"):
        return Kind.PARTIAL  # the images have to be pushed
    try:
        run(COMMAND, "--name", cluster, "status", seconds=60)
    except CommandError:
        return Kind.WARM
    return Kind.AGAIN


def _go_cache() -> Path:
    """Where Go keeps what it has compiled, unless its own configuration file says otherwise."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("GOCACHE") or home / "go-build")


def _holds_something(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


class Record:
    """The steps of one run."""

    def __init__(self, kind: Kind, *, say: Say) -> None:
        self._kind = kind
        self._say = say
        self._started = time.monotonic()
        self._steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Tell that a step begins, and note its seconds if it ends well."""
        self._say(f"== {title}")
        started = time.monotonic()
        yield
        self._steps.append((title, round(time.monotonic() - started, 1)))

    def save(self, folder: Path) -> None:
        """Write times-KIND.json: the seconds so far, and the steps with theirs."""
        folder.mkdir(parents=True, exist_ok=True)
        total = round(time.monotonic() - self._started, 1)
        content = {"seconds": total, "steps": self._steps}
        (folder / f"times-{self._kind}.json").write_text(json.dumps(content))

    def __str__(self) -> str:
        total = sum(seconds for _, seconds in self._steps)
        lines = [f"{seconds:7.1f} s  {title}" for title, seconds in self._steps]
        return "\n".join([*lines, f"{total:7.1f} s  together ({self._kind})"])
