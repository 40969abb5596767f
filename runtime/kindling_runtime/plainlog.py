"""The runtime's own log: plain lines on stderr, written by a thread of their own.

Whoever reads a container's output may stop (a full disk of the node, a log driver that hangs), and
then a write to it waits for ever. The event loop, and with it every probe and every signal, must
not: it leaves its lines here. Above a thousand they are left out, and once somebody reads again the
log says how many.
"""

import collections
import logging
import os
import threading
import time
from typing import Final

_MOST_LINES: Final = 1000
_FLUSH_SECONDS: Final = 1.0
"""At the end, for a reader to take what is left."""
_STDERR: Final = 2


class Aside(logging.Handler):
    """Writes to the file descriptor `sink`; no call of it ever waits for a reader, but `flush`,
    which waits a second."""

    def __init__(self, sink: int = _STDERR) -> None:
        super().__init__()
        self._sink = sink
        self._lines: collections.deque[str] = collections.deque()
        self._dropped = 0
        self._writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write, daemon=True, name="log").start()

    def emit(self, record: logging.LogRecord) -> None:
        """Leave one line."""
        line = self.format(record)
        with self._changed:
            if len(self._lines) >= _MOST_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all is written, a second at most."""
        until = time.monotonic() + _FLUSH_SECONDS
        with self._changed:
            while self._lines or self._writing:
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _write(self) -> None:
        while True:
            rest = self._next()
            try:
                while rest:
                    rest = rest[os.write(self._sink, rest) :]
            except OSError:
                pass  # nobody will read it
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _next(self) -> bytes:
        with self._changed:
            while not self._lines:
                self._changed.wait()
            self._writing = True
            line = self._lines.popleft() + "\n"
            if self._dropped and not self._lines:
                line += f"{self._dropped} lines of the runtime are left out: nobody read its log\n"
                self._dropped = 0
            return line.encode(errors="backslashreplace")
