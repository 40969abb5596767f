"""The line of an engine's log that says why it died."""

import re
from collections.abc import Sequence

# As in "torch.OutOfMemoryError: ...", "vllm serve: error: ..." and "Fatal Python error: ...".
_COMPLAINT = re.compile(
    r"(?:\b[A-Za-z_][\w.]*(?:Error|Exception)|\bFatal Python error|\berror):\s+\S.*"
)

# vLLM's parent processes repeat a child's death in these words, after the line that explains it.
_ECHOES = ("See root cause above", "See stack trace above", "EngineDeadError")

_LONGEST = 500


def pick(lines: Sequence[str]) -> str | None:
    """The last complaint in `lines` (oldest first) that is not an echo, at most 500 characters.

    The log's own prefixes (process, level, time) are cut off. Falls back to the last echo, then to
    None: a line without a complaint explains nothing.
    """
    complaints = [found[0].strip() for line in lines if (found := _COMPLAINT.search(line))]
    causes = [text for text in complaints if not any(echo in text for echo in _ECHOES)]
    for candidates in (causes, complaints):
        if candidates:
            return candidates[-1][:_LONGEST]
    return None
