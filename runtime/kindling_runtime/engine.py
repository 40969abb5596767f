"""The engine process: started, heard, told to stop, described when it ends."""

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Self

from kindling_runtime import lastwords, starving
from kindling_runtime.contract import KILLED
from kindling_runtime.state import EngineExited

_TAIL_LINES = 400
_LONGEST_LINE = 64 * 1024
_LONGEST_KEPT = 16 * 1024
_LAST_WORDS_SECONDS = 1.0

# vLLM ends with status 0 after SIGTERM; a process without a handler dies of the signal itself.
_CLEAN_STATUSES = frozenset({0, -signal.SIGTERM, 128 + signal.SIGTERM})


class Engine:
    """A running engine: the leader of a process group and session of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.started = time.monotonic()
        self._process = process
        self._kills = self._kills_lately = starving.kills()
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._voices = [
            self._listen(pipe, sink)
            for pipe, sink in ((process.stdout, 1), (process.stderr, 2))
            if pipe is not None
        ]

    @classmethod
    def launch(cls, argv: Sequence[str], env: Mapping[str, str]) -> Self:
        """Start a command with `env` over the container's; raises OSError when the kernel cannot.

        Secrets reach it through the container's environment, which it inherits. Its output is
        unbuffered unless planned otherwise: the last lines before a crash are the useful ones.
        """
        return cls(
            subprocess.Popen(
                argv,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )

    def served(self) -> None:
        """It generates: what the kernel ended before the last time that it did so was no loss."""
        self._kills, self._kills_lately = self._kills_lately, starving.kills()

    def terminate(self) -> None:
        """SIGTERM to the main process alone: vLLM tells its children itself, after the drain."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to everything that the engine started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def buried(self, status: int) -> EngineExited:
        """Clean up after the main process ended with `status`, and tell how it did.

        Children that it left behind hold the accelerator and the pipes, so they go first.
        """
        self._process.returncode = status  # the reaper waited for it, not Popen
        self.kill()
        await asyncio.to_thread(self._hear_out)
        lines, starved = list(self._tail), starving.kills() > self._kills
        words = starving.sentence() if starved else lastwords.pick(lines)
        return EngineExited(
            describe_exit(status, words),
            clean=status in _CLEAN_STATUSES and not lastwords.tell_of_death(lines),
            starved=starved,
        )

    def _hear_out(self) -> None:
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        for voice in self._voices:
            voice.join(max(0.0, deadline - time.monotonic()))

    def _listen(self, pipe: IO[bytes], sink: int) -> threading.Thread:
        # A thread, not the event loop: when nobody reads our output the engine must wait for it,
        # the endpoints must not.
        voice = threading.Thread(target=self._forward, args=(pipe, sink), daemon=True)
        voice.start()
        return voice

    def _forward(self, pipe: IO[bytes], sink: int) -> None:
        with pipe:
            while line := pipe.readline(_LONGEST_LINE):
                self._tail.append(line[:_LONGEST_KEPT].decode(errors="replace").rstrip())
                # With our output gone the engine is still drained, or it would block.
                with contextlib.suppress(OSError):
                    _write_all(sink, line)


def describe_exit(status: int, last_words: str | None) -> str:
    """How the engine ended, to follow "the engine"."""
    how = f"exited with status {status}" if status >= 0 else f"{KILLED} {_signal_name(-status)}"
    if last_words is not None:
        return f"{how}: {last_words}"
    if status == -signal.SIGKILL and starving.are_counted():
        return f"{how} from outside, as the kernel has ended nothing for memory"
    if status == -signal.SIGKILL:
        return f"{how}, which is how the kernel ends a process over its memory limit"
    return f"{how} and logged no error"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _write_all(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]
