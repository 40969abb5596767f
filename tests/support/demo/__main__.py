"""`python -m tests.support.demo`: tell the story, and say in one sentence what went wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from types import FrameType

from tests.support.demo.story import Story
from tests.support.kube import AWAY
from tests.support.onenode import CommandError

FAILURES = (AssertionError, TimeoutError, subprocess.TimeoutExpired, OSError, *AWAY)
"""What a step raises; CommandError, KubectlError and NotInTimeError are AssertionErrors."""


def main() -> int:
    """Exit status: 0 done, 1 failed with a sentence, 130 interrupted."""
    signal.signal(signal.SIGTERM, _interrupted)
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {line}", flush=True)

    story = Story(say=say)
    try:
        story.tell()
    except KeyboardInterrupt:
        say("interrupted; `make demo` goes on from here, `make demo-down` removes the demo")
        return 130
    except FAILURES as error:
        say(f"failed: {error}")
        try:
            say(f"the logs of everything are in {story.collect_logs()}")
        except (CommandError, subprocess.TimeoutExpired) as problem:
            say(f"its logs could not be collected: {problem}")
        return 1
    return 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
