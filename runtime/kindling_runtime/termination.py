"""The reason and the one sentence that a container leaves behind for `kubectl describe`."""

import contextlib
import os
from pathlib import Path

from kindling_runtime.contract import TERMINATION_MESSAGE_BYTES, Reason, last_words


def write(path: Path, reason: Reason, sentence: str) -> None:
    """Replace the termination message, on one line and short enough to be kept.

    The kubelet mounts the file itself, so it can be neither renamed over nor created: the message
    goes out in a single write. Where there is no such file (outside a pod), or it cannot be
    written, nobody is told: the log has the same sentence, and leaving well matters more.
    """
    line = " ".join(last_words(reason, sentence).split()).encode()
    # A cut may fall inside a character; what is left of it is dropped.
    kept = line[:TERMINATION_MESSAGE_BYTES].decode(errors="ignore").encode()
    with contextlib.suppress(OSError):
        target = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(target, kept)
        finally:
            os.close(target)
