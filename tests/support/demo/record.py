"""How long the demo took, step by step; `make bench` reads the last run of each kind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cache import cache_folder
from tests.support.onenode import COMMAND, CommandError, run
from tests.support.waiting import Say


def kind_of_run(cluster: str) -> str:
    """`cold`: Kubernetes has to be built; `warm`: it only has to be started; else `again`."""
    if not any((cache_folder() / "bin").glob("core-*")):
        return "cold"
    try:
        run(COMMAND, "--name", cluster, "status", seconds=60)
    except CommandError:
        return "warm"
    return "again"


class Record:
    """The steps of one run."""

    def __init__(self, kind: str, *, say: Say) -> None:
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
        """Write KIND.json: the seconds so far, and the steps with theirs."""
        folder.mkdir(parents=True, exist_ok=True)
        total = round(time.monotonic() - self._started, 1)
        content = {"seconds": total, "steps": self._steps}
        (folder / f"{self._kind}.json").write_text(json.dumps(content))

    def __str__(self) -> str:
        total = sum(seconds for _, seconds in self._steps)
        lines = [f"{seconds:7.1f} s  {title}" for title, seconds in self._steps]
        return "\n".join([*lines, f"{total:7.1f} s  together ({self._kind})"])
