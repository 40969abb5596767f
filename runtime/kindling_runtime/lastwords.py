"""The line of an engine's log that says why it died."""

import re
from collections.abc import Sequence

# As in "torch.OutOfMemoryError: ...", "vllm serve: error: ...", "Fatal Python error: ..." and, of a
# pydantic error, the line below its first one, which only counts.
_COMPLAINT = re.compile(
    r"(?:\b[A-Za-z_][\w.]*(?:Error|Exception)|\bFatal Python error|\berror):\s+\S.*"
    r"|\bValue error, \S.*"
)
_PYDANTIC_TAIL = re.compile(r"\s\[type=.*")

# A warning may quote an error that did not happen: vLLM's on ulimit does so at every start.
_NO_COMPLAINT = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")

# What vLLM 0.32 logs when its engine core is gone; it ends with status 0 all the same.
_DEATH = "EngineDeadError"

# vLLM's parent processes repeat a child's death in these words, after the line that explains it.
_ECHOES = ("See root cause above", "See stack trace", _DEATH)

_LONGEST = 500


def pick(lines: Sequence[str]) -> str | None:
    """The last complaint in `lines` (oldest first) that is not an echo, at most 500 characters.

    The log's own prefixes (process, level, time) are cut off. Falls back to the last echo, then to
    None: a line without a complaint explains nothing.
    """
    complaints = [text for line in lines if (text := _complaint(line)) is not None]
    causes = [text for text in complaints if not any(echo in text for echo in _ECHOES)]
    for candidates in (causes, complaints):
        if candidates:
            return candidates[-1]
    return None


def tell_of_death(lines: Sequence[str]) -> bool:
    """Whether the engine core died under the process that logged `lines`."""
    return any(_DEATH in line for line in lines)


def _complaint(line: str) -> str | None:
    found = _COMPLAINT.search(line)
    if found is None or _NO_COMPLAINT.search(line[: found.start()]):
        return None
    return _PYDANTIC_TAIL.sub("", found[0])[:_LONGEST].strip().rstrip(".")
