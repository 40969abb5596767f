"""Builds side by side: each in a process group of its own, so that ending one ends all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO

from tests.support.onenode import ROOT, CommandError
from tests.support.waiting import Say

END_SECONDS = 15
"""How long a build may take to end after SIGINT before it is killed."""
LOOK_SECONDS = 0.2


class Build:
    """One running program whose stderr is told line by line."""

    def __init__(self, title: str, command: Sequence[str], *, say: Say) -> None:
        self.title = title
        self._last: deque[str] = deque(maxlen=20)
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        self._reader = threading.Thread(
            target=self._tell, args=(self._process.stderr, say), daemon=True
        )
        self._reader.start()

    @property
    def done(self) -> bool:
        """True once it has ended well; raises CommandError once it has ended otherwise."""
        status = self._process.poll()
        if status:
            self._reader.join(timeout=5)
            tail = "\n".join(self._last)
            raise CommandError(f"{self.title} ended with status {status}:\n{tail}")
        return status == 0

    def end(self) -> None:
        """End it and everything that it started; no error if it has ended."""
        if self._process.poll() is None:
            self._signal(signal.SIGINT)
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait(END_SECONDS)
            # What a shell has put into the background does not listen to SIGINT.
            self._signal(signal.SIGTERM)
        self._reader.join(timeout=5)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _tell(self, lines: IO[str], say: Say) -> None:
        for line in lines:
            if line.strip():
                self._last.append(line.rstrip())
                say(f"  {line.rstrip()}")


def side_by_side(commands: Mapping[str, Sequence[str]], *, seconds: float, say: Say) -> None:
    """Run the commands (by title) at once until all have ended well.

    When one fails, the others are ended and its CommandError is raised; so they are on Ctrl-C and
    after `seconds`, with TimeoutError.
    """
    builds: list[Build] = []
    deadline = time.monotonic() + seconds
    try:
        for title, command in commands.items():
            builds.append(Build(title, command, say=say))
        while waiting := [build.title for build in builds if not build.done]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{' and '.join(waiting)} took longer than {seconds:g} s")
            time.sleep(LOOK_SECONDS)
    finally:
        for build in builds:
            build.end()
