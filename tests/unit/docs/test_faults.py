"""docs/faults.md: every fault has a test, a bound and a measured time; no test's row is missing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support.faultpage import PAGE, Fault, Kind, Row, page_of, row_of, rows_of
from tests.support.onenode import ROOT

SECONDS: Final = r"[\d.]+ (?:ms|s)"
SEEN: Final = re.compile(rf"\b{SECONDS}(?=,|;|$)")
BOUND: Final = re.compile(r"≤ [\d.]+ s\b")

KILLED: Final = "test_a_killed_process_of_vllm_ends_the_pod_with_the_reason"
LISTED: Final = {
    "kill -STOP on the engine core": "test_a_stopped_core_is_found_though_health_is_green",
    "kill -9 on the core": f"{KILLED}[engine core]",
    "kill -9 on the worker": f"{KILLED}[worker]",
    "kill -9 on the server": f"{KILLED}[server]",
    "kill -9 on the resource tracker": "test_a_killed_resource_tracker_costs_nothing",
    "OOM in the cgroup": "test_an_engine_over_the_memory_limit_is_told_with_the_limit",
    "full disk": "test_a_disk_that_becomes_full_ends_in_one_sentence_and_the_next_attempt_goes_on",
    "truncated weights": "test_a_pod_that_cannot_run_its_plan_is_refused[truncated safetensors]",
    "wrong checksum": (
        "test_content_that_does_not_fit_its_checksum_is_fetched_again_and_then_refused"
    ),
    "slow store": "test_a_store_that_is_slow_is_waited_for_longer_than_the_bound",
    "store that hangs": "test_a_store_that_hangs_ends_in_one_sentence",
    "20 streams through a rollout": "test_nobody_notices_a_rollout",
    "SIGTERM during load": "test_sigterm_during_a_load_is_obeyed_at_once",
    "SIGTERM twice": "test_sigterm_twice_cuts_no_stream",
    "a wedged engine": "test_a_wedged_engine_loses_readiness_then_liveness_and_is_replaced",
    "a stuck loader": "test_an_engine_that_is_stopped_while_it_loads_is_found_and_ended",
    "a dead rank": "test_a_member_that_starts_again_makes_all_engines_start_again",
    "a dead follower": "test_a_silent_follower_is_noticed",
    "a slow engine is kept": "test_an_engine_that_is_very_slow_is_kept",
    "no canary on a busy engine": "test_a_busy_engine_is_sent_no_canary",
    "/dev/shm leftovers": "test_shared_memory_of_a_killed_engine_is_removed",
}
"""What must be there, and by which test."""


def recorded() -> Iterator[tuple[str, str]]:
    """File and name of each test that makes a fault."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_") and "fault" in {each.arg for each in node.args.args}:
                yield file.relative_to(ROOT).as_posix(), node.name


def test_every_row_names_a_test_that_is_there() -> None:
    assert named() - set(recorded()) == set()


def test_every_test_that_makes_a_fault_has_a_row() -> None:
    assert set(recorded()) - named() == set()


def named() -> set[tuple[str, str]]:
    """File and function of the tests of all rows."""
    return {(row.test.partition("::")[0], name(row)) for row in rows_of(PAGE.read_text())}


def name(row: Row) -> str:
    """The function of a row's test."""
    return row.test.partition("[")[0].rpartition("::")[2]


@pytest.mark.parametrize("row", [*rows_of(PAGE.read_text())], ids=lambda row: row.test)
def test_every_row_has_a_bound_and_a_measured_time_for_each(row: Row) -> None:
    bounds, times = BOUND.findall(row.promised), SEEN.findall(row.seen)

    assert bounds, row.promised
    assert len(times) >= len(bounds), row.seen
    assert re.fullmatch(r"20\d\d-\d\d-\d\d, \d+ cores, load \d+", row.measured)


@pytest.mark.parametrize("what", LISTED)
def test_what_must_be_there_is_there(what: str) -> None:
    tests = {row.test.partition("::")[2] for row in rows_of(PAGE.read_text())}

    assert any(LISTED[what] in (test, test.partition("[")[0]) for test in tests)


def test_the_page_is_what_is_written_from_its_rows() -> None:
    text = PAGE.read_text()

    assert page_of(rows_of(text)) == text


def test_a_time_beyond_its_bound_fails_the_test_that_notes_it() -> None:
    fault = Fault("tests/test_x.py::test_x")
    fault.row(Kind.ENGINE, "it hangs", "given up")

    with pytest.raises(AssertionError, match=r"exit 70 after 3.0 s, promised within 2 s"):
        fault.within(2, "exit 70", took=3)


def test_a_row_goes_to_the_page_and_comes_back(tmp_path: Path) -> None:
    fault = Fault("tests/contract/test_x.py::test_x[a]")
    fault.row(Kind.GROUP, "it hangs", "given up")
    fault.within(2, "exit 70", took=0.04)
    fault.note("this | that")
    row = row_of(fault.test, fault.noted)
    page = tmp_path / "page.md"
    page.write_text(page_of([row]))

    [read] = rows_of(page.read_text())

    assert (read.test, read.kind) == (fault.test, Kind.GROUP)
    assert read.promised == "given up (exit 70 ≤ 2 s)"
    assert read.seen == "exit 70 40 ms; this / that"
