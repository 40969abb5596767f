"""The runtime's log where somebody reads it, and where nobody does."""

import logging
import os
from typing import BinaryIO

import pytest

from kindling_runtime import plainlog
from kindling_runtime.plainlog import Aside

ROOM = 1 << 16
"""Of a pipe, as Linux makes it (pipe(7))."""


def _said(handler: Aside, text: str) -> None:
    handler.emit(logging.makeLogRecord({"msg": text}))


def test_lines_are_written_in_their_order_and_whole() -> None:
    reader, writer = os.pipe()
    handler = Aside(writer)
    for number in range(100):
        _said(handler, f"line {number} \udc80")
    handler.flush()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read().decode().splitlines() == [f"line {n} \\udc80" for n in range(100)]


def test_whoever_logs_does_not_wait_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plainlog, "_FLUSH_SECONDS", 0.1)
    monkeypatch.setattr(plainlog, "_MOST_LINES", 10)
    reader, writer = os.pipe()
    handler = Aside(writer)
    _said(handler, "a" * 2 * ROOM)  # more than the pipe takes
    for number in range(30):
        _said(handler, f"line {number}")
    handler.flush()  # and nor does the end
    with os.fdopen(reader, "rb") as file:
        first, *kept = _until_left_out(file)
    os.close(writer)
    assert first == "a" * 2 * ROOM
    # Ten wait, of which the long one may be the first.
    assert len(kept) - 1 in {9, 10}
    assert kept == [
        *(f"line {number}" for number in range(len(kept) - 1)),
        f"{31 - len(kept)} lines of the runtime are left out: nobody read its log",
    ]


def _until_left_out(file: BinaryIO) -> list[str]:
    lines = [""]
    while not lines[-1].endswith("nobody read its log"):
        lines.append(file.readline().decode().rstrip())
    return lines[1:]


def test_a_reader_that_has_gone_harms_nobody() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    handler = Aside(writer)
    _said(handler, "nobody hears this")
    handler.flush()
    os.close(writer)
