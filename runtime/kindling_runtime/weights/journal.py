"""Which parts of a partial folder are there: one line each, appended after the part was written.

A line carries the part's own hash. So nothing has to be flushed before it is written: a part that a
power cut took from the disk again is found when the file's checksum is made, and fetched again.
Each lease writes a journal of its own; all of them are read.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from kindling_runtime import foreign, wire
from kindling_runtime.weights.parts import Part, RemoteFile, part_count
from kindling_runtime.weights.volume import JOURNAL

_LONGEST_LINE: Final = 16 << 10
_LONGEST_NUMBER: Final = 255
"""As long as a name."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """Part `index` of the file `path` whose content the store calls `etag`."""

    path: str
    size: int
    etag: str
    index: int
    blake3: str


Done = dict[tuple[str, int], str]
"""The hash of each part that is there, by path and index."""


class Journal:
    """Appends to one journal of a partial folder."""

    def __init__(self, folder: Path, *, number: int) -> None:
        # Unbuffered: a line is in the kernel's hands when `add` returns, and survives SIGKILL.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(folder / f"{JOURNAL}{number}", flags, 0o644)
        self._lock = threading.Lock()
        self._open = True

    def add(self, part: Part, blake3: str) -> None:
        """Note that `part` was written."""
        file = part.file
        line = Line(file.path, file.size, file.etag, part.index, blake3)
        with self._lock:
            if self._open:
                os.write(self._handle, b"\n" + msgspec.json.encode(line))

    def close(self) -> None:
        """No more lines, not even from threads that still write."""
        with self._lock:
            self._open = False
            os.close(self._handle)


def read(folder: Path, files: Iterable[RemoteFile]) -> Done:
    """The parts of `files` that are there, as far as all journals of the folder tell.

    What was noted of a file that the store has changed since does not count, nor does a line that
    was cut off.
    """
    known = {(file.path, file.size, file.etag): part_count(file) for file in files}
    done: Done = {}
    # Of two lines on one part, that of the later lease counts.
    for journal in sorted(folder.glob(f"{JOURNAL}*"), key=lambda path: _number(path) or 0):
        for line in _lines(journal):
            if 0 <= line.index < known.get((line.path, line.size, line.etag), 0):
                done[line.path, line.index] = line.blake3
    return done


def _number(journal: Path) -> int | None:
    """Of the lease that wrote it; None of a file that only is called so."""
    return wire.number(journal.name.removeprefix(JOURNAL), digits=_LONGEST_NUMBER)


def _lines(journal: Path) -> Iterator[Line]:
    if _number(journal) is None:
        return
    try:
        with foreign.opened(journal) as file:
            while text := file.readline(_LONGEST_LINE):
                if (line := wire.decoded(text, Line)) is not None:
                    yield line
    except OSError:
        return  # what it noted is fetched again
