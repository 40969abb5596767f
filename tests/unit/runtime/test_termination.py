"""The termination message."""

from pathlib import Path

import pytest

from kindling_runtime import termination


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "termination-log"
    file.write_text("an older and longer message than the next one")
    return file


def test_it_replaces_the_one_before(log: Path) -> None:
    termination.write(log, "no config.json")

    assert log.read_text() == "no config.json"


def test_it_is_one_line(log: Path) -> None:
    termination.write(log, "no\nconfig.json \n")

    assert log.read_text() == "no config.json"


def test_it_is_no_longer_than_the_kubelet_keeps_and_cuts_no_character(log: Path) -> None:
    termination.write(log, "x" + "é" * 4000)

    assert log.read_text() == "x" + "é" * 2047


def test_outside_a_pod_nothing_is_created(tmp_path: Path) -> None:
    termination.write(tmp_path / "termination-log", "no config.json")

    assert list(tmp_path.iterdir()) == []
