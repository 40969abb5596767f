"""What others write: the engine, other pods of a claim, whoever mounts it, and the names in it.

A path may be anything there. To open a FIFO waits for ever, and a device never ends, so regular
files alone are opened, and no more is read than what they may hold. A text may move a terminal's
cursor, hide what follows or have no end. Standard library only: the front reads by it inside the
engine.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_LONGEST_QUOTE: Final = 200


def opened(path: Path) -> BinaryIO:
    """A regular file to read; raises OSError for anything else, at once."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def content(path: Path, *, most: int) -> bytes:
    """All of a regular file; raises OSError for anything else, and above `most` bytes."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return data


def printable(text: str) -> str:
    """In one line, without what is no character to look at: control, format, half a pair."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())


def quoted(text: str) -> str:
    """As part of a sentence, which must still be seen to its end."""
    return printable(text[: 2 * _LONGEST_QUOTE])[:_LONGEST_QUOTE]
