"""Builds side by side: their progress is told, and none outlives a failure."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.support.demo.builds import side_by_side
from tests.support.onenode import CommandError
from tests.support.waiting import until

FOREVER = 60


def _build(script: str) -> list[str]:
    return ["bash", "-c", script]


def test_progress_of_all_is_told() -> None:
    told: list[str] = []
    side_by_side(
        {"one": _build("echo first >&2"), "two": _build("echo second >&2; echo quiet")},
        seconds=30,
        say=told.append,
    )

    assert sorted(told) == ["  first", "  second"]


def test_a_failure_names_the_build_and_ends_the_others(tmp_path: Path) -> None:
    """Also what the others have started, which is what takes the machine's time."""
    pid = tmp_path / "pid"
    slow = _build(f"sleep {FOREVER} & echo $! > {pid}; wait")
    broken = _build(f"until [ -s {pid} ]; do sleep 0.05; done; echo no space >&2; exit 7")
    with pytest.raises(CommandError, match="broken ended with status 7:\nno space"):
        side_by_side({"slow": slow, "broken": broken}, seconds=30, say=print)

    until("the sleep to be gone", lambda: not _runs(int(pid.read_text())), seconds=5)


def test_a_build_has_a_deadline(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"slow took longer than 0\.5 s"):
        side_by_side({"slow": _build(f"sleep {FOREVER}")}, seconds=0.5, say=print)

    assert time.monotonic() - started < FOREVER / 2


def _runs(pid: int) -> bool:
    """Whether the process still does something; a dead one may wait for its parent to look."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
