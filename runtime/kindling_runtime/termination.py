"""The reason and the one sentence that a container leaves behind for `kubectl describe`."""

import contextlib
import os
from pathlib import Path

from kindling_runtime.contract import TERMINATION_MESSAGE_BYTES, Reason, last_words
from kindling_runtime.foreign import printable


def write(path: Path, reason: Reason, sentence: str, checks: str = "") -> None:
    """Replace the termination message, on one line, printable and short enough to be kept.

    The kubelet mounts the file itself, so it can be neither renamed over nor created: the message
    goes out in a single write. Where there is no such file (outside a pod), or it cannot be
    written, nobody is told: the log has the same sentence, and leaving well matters more.
    """
    line = printable(last_words(reason, sentence, checks)).encode()
    # A cut may fall inside a character; what is left of it is dropped.
    kept = line[:TERMINATION_MESSAGE_BYTES].decode(errors="ignore").encode()
    with contextlib.suppress(OSError):
        # What is no file, such as a FIFO without a reader, must not hold up the end.
        target = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.write(target, kept)
        finally:
            os.close(target)
