"""The termination message."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_what_moves_a_terminal_or_is_half_a_pair_is_left_out(log: Path) -> None:
    termination.write(
        log, Reason.WEIGHTS_INCOMPLETE, "no \x1b]0;owned\x07\u202e\ud800a.safetensors"
    )

    assert log.read_text() == "WeightsIncomplete: no ]0;owneda.safetensors"


def test_the_checks_follow_the_sentence_and_the_operator_reads_it_alone(log: Path) -> None:
    termination.write(log, Reason.PREFLIGHT_FAILED, "no GPU", "failed: gpus; ok: clock, port")

    told = log.read_text()
    assert told == "PreflightFailed: no GPU [checks: failed: gpus; ok: clock, port]"
    assert read_last_words(told) == (Reason.PREFLIGHT_FAILED, "no GPU")


def test_a_list_of_checks_that_is_cut_is_none_of_the_sentence(log: Path) -> None:
    termination.write(log, Reason.PREFLIGHT_FAILED, "x" * 4000, "failed: gpus; ok: " + "y" * 100)

    told = log.read_text()
    assert len(told) == 4096
    assert read_last_words(told) == (Reason.PREFLIGHT_FAILED, "x" * 4000)


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


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/full")])
def test_a_place_that_takes_nothing_does_not_hold_up_the_end(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    make(tmp_path / "log")
    done = threading.Event()

    def write() -> None:
        termination.write(tmp_path / "log", Reason.DRAINED, "bye")
        done.set()

    threading.Thread(target=write, daemon=True).start()
    assert done.wait(30)
