"""What a download tells of a store that sends nothing."""

import time

from kindling_runtime.contract import Phase, Reason
from kindling_runtime.weights.board import Board
from kindling_runtime.weights.progress import Meter

LONG_AGO = 60.0


def board(reason: Reason, *, silent: float) -> Board:
    """A download that is under way, of which nothing has come for `silent` seconds."""
    then = time.monotonic() - silent
    return Board(Phase.DOWNLOADING, reason, meter=Meter.begin(100, done=40, now=then), since=then)


def test_a_store_that_sends_nothing_is_told_with_the_time_and_its_answer() -> None:
    found = board(Reason.DOWNLOADING, silent=LONG_AGO)
    assert "(it accepts and sends nothing); see whether the store answers" in found.problem
    assert found.problem.startswith("no byte of weights has come since 20")

    found.last_problem = "HTTP 503"
    assert "(HTTP 503)" in found.problem


def test_a_store_that_sends_is_no_problem() -> None:
    found = board(Reason.DOWNLOADING, silent=LONG_AGO)
    found.last_problem = "HTTP 503"
    found.arrived(1 << 20)

    assert (found.problem, found.last_problem) == ("", "")
    assert board(Reason.DOWNLOADING, silent=2).problem == ""


def test_a_store_that_sends_hardly_anything_is_told_as_that() -> None:
    found = board(Reason.DOWNLOADING, silent=LONG_AGO)
    found.arrived(1)

    assert found.problem.startswith("less than 1.0 KiB/s of weights has come since 20")
    assert "(it accepts and sends a few bytes at a time)" in found.problem


def test_a_list_that_does_not_come_is_told_and_room_that_is_made_is_not() -> None:
    then = time.monotonic() - LONG_AGO
    assert Board(Phase.DOWNLOADING, Reason.LISTING, since=then).problem
    assert not Board(Phase.DOWNLOADING, Reason.PREFLIGHT, since=then).problem
    assert not Board(Phase.DOWNLOADING, Reason.WAITING_FOR_DOWNLOAD, since=then).problem
