"""The line of an engine's log that says why it died."""

import re
import string
from collections.abc import Sequence

from kindling_runtime.foreign import printable

# As in "torch.OutOfMemoryError: ...", "vllm serve: error: ...", "Fatal Python error: ..." and, of a
# pydantic error, the line below its first one, which only counts. A line may be what a client has
# sent: it is read once, and the name's beginning is looked for backwards.
_COMPLAINT = re.compile(
    r"(?:(?<=[\w.])(?P<class>Error|Exception)|\bFatal Python error|\berror):\s{1,20}\S"
    r"|\bValue error, \S"
)
_NAME = f"{string.ascii_letters}{string.digits}_."
_PYDANTIC_TAIL = re.compile(r"\s\[type=.*")

# A warning may quote an error that did not happen: vLLM's on ulimit does so at every start.
_NO_COMPLAINT = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")

# What vLLM 0.32 logs when its engine core is gone; it ends with status 0 all the same.
_DEATH = "EngineDeadError"

# What vLLM 0.32's server logs when the core ends and has not said why.
_LOST = "engine core exited unexpectedly"

# vLLM's parent processes repeat a child's death in these words, after the line that explains it.
_ECHOES = ("See root cause above", "See stack trace", _DEATH)

# What vLLM 0.32's engine core logs when a worker process is gone, and what it then fails with: the
# words name no cause.
_DEAD_WORKER = re.compile(r"Worker proc (?P<worker>\w[\w-]*) died unexpectedly")
_AFTER_A_WORKER = ("RuntimeError: cancelled", "RuntimeError: Executor failed")

_LONGEST = 500


def pick(lines: Sequence[str]) -> str | None:
    """The last complaint in `lines` (oldest first) that is not an echo, at most 500 characters.

    The log's own prefixes (process, level, time) are cut off. Falls back to what is known of a core
    that said nothing, to the last echo, then to None: a line without a complaint explains nothing.
    """
    complaints = [text for line in lines if (text := _complaint(line)) is not None]
    worker = next((found for line in lines if (found := _DEAD_WORKER.search(line))), None)
    echoes = (*_ECHOES, *(_AFTER_A_WORKER if worker else ()))
    causes = [text for text in complaints if not any(echo in text for echo in echoes)]
    if causes:
        return causes[-1]
    if worker:
        return f"its worker {worker['worker']} ended without a word, as a killed process does"
    if any(_LOST in line for line in lines):
        return f"its engine core ended without a word, as a killed process does ({_DEATH})"
    return complaints[-1] if complaints else None


def tell_of_death(lines: Sequence[str]) -> bool:
    """Whether the engine core died under the process that logged `lines`."""
    return any(_DEATH in line for line in lines)


def _complaint(line: str) -> str | None:
    found = _COMPLAINT.search(line)
    if found is None:
        return None
    before = line[: found.start()]
    if found["class"]:
        before = before.rstrip(_NAME)
    if _NO_COMPLAINT.search(before):
        return None
    said = _PYDANTIC_TAIL.sub("", line[len(before) :]).lstrip(f"{string.digits}.")
    return printable(said[: 2 * _LONGEST])[:_LONGEST].strip().rstrip(".")
