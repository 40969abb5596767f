"""The termination message."""

from pathlib import Path

import pytest

from kindling_runtime import termination
from kindling_runtime.contract import Reason, read_last_words


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "termination-log"
    file.write_text("an older and longer message than the next one")
    return file


def test_it_replaces_the_one_before(log: Path) -> None:
    termination.write(log, Reason.PREFLIGHT_FAILED, "no config.json")

    assert log.read_text() == "PreflightFailed: no config.json"


def test_it_is_one_line(log: Path) -> None:
    termination.write(log, Reason.PREFLIGHT_FAILED, "no\nconfig.json \n")

    assert log.read_text() == "PreflightFailed: no config.json"


def test_it_is_no_longer_than_the_kubelet_keeps_and_cuts_no_character(log: Path) -> None:
    termination.write(log, Reason.PREFLIGHT_FAILED, "x" + "é" * 4000)

    assert log.read_text() == "PreflightFailed: x" + "é" * 2039


def test_outside_a_pod_nothing_is_created(tmp_path: Path) -> None:
    termination.write(tmp_path / "termination-log", Reason.PREFLIGHT_FAILED, "no config.json")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reason", Reason)
def test_the_operator_reads_back_what_was_written(log: Path, reason: Reason) -> None:
    termination.write(log, reason, "port 8000: taken")

    assert read_last_words(log.read_text()) == (reason, "port 8000: taken")


@pytest.mark.parametrize("message", ["", "RuntimeError: no weights", "Wedged", "Error"])
def test_words_of_another_origin_have_no_reason(message: str) -> None:
    assert read_last_words(message) == (None, message)
