"""What has come goes to the disk while the rest comes, not after the last byte."""

import os
from pathlib import Path
from typing import cast

import pytest

from kindling_runtime.weights.board import Board
from kindling_runtime.weights.download import Download
from kindling_runtime.weights.journal import Journal
from kindling_runtime.weights.parts import RemoteFile, parts_of
from kindling_runtime.weights.store import Store


def test_it_goes_at_every_128_mib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, number=1)
    download = Download(
        cast(Store, None), tmp_path, journal=journal, done={}, board=Board(), stall_seconds=9
    )
    reached = 0
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda _: flushed.append(reached))
    handle = os.open(tmp_path / "model", os.O_RDWR | os.O_CREAT)
    try:
        for part in parts_of(RemoteFile("model", 300 << 20)):
            reached = part.end >> 20
            download._keep(part, handle, memoryview(b"a"))
    finally:
        os.close(handle)
        journal.close()

    assert flushed == [128, 256]
