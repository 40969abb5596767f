"""The page docs/faults.md: the row of a fault is written by the test that makes it.

A test that takes the fixture `fault` says what it breaks, when, and within which bound the system
must have reacted: the bound is asserted, the seconds are noted. `make faults` writes what was noted
into the page; any other run leaves the page alone.
"""

import enum
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.onenode import ROOT

PAGE: Final = ROOT / "docs" / "faults.md"
SWITCH: Final = "KINDLING_FAULTS"
PROPERTY: Final = "fault"

HEAD: Final = """# Faults, and what was seen

Each row is a test that makes the fault, asserts what is promised and the bound of each time, and
says what it measured. `make faults` runs the tests and writes this page; a row that was not
measured again keeps its last figures. Bounds are those of the test's own plan, which is shorter
than a pod's so that tests are quick, with 30 s of room for a busy machine; the text has the rule,
docs/runtime.md the defaults. The load is that of the machine's last minute (cores: as many as it
has), and times grow with it.

*stand-in*: the real runtime as a process over a program that speaks vLLM's HTTP
(`tests/support/engine/standin.py`). *vLLM*: the same over vLLM 0.32 and a tiny model in the CPU
image. *store*: the real fetch over a store that a test can break. *alone*: the part by itself.
*pod*: vLLM 0.32 in a pod of the one-node cluster, under the real kubelet and operator.
"""

_COLUMNS: Final = ("fault", "promised", "seen", "with", "measured", "test")


class Kind(enum.StrEnum):
    """The tables of the page, in its order."""

    ENGINE = "The engine"
    LOAD = "A load"
    DRAIN = "Leaving"
    WEIGHTS = "Weights and downloads"
    POD = "The pod, before the engine starts"
    GROUP = "Groups"
    MESSAGES = "What kubectl shows"


class Under(enum.StrEnum):
    """What the fault was made in."""

    STANDIN = "stand-in"
    VLLM = "vLLM"
    STORE = "store"
    ALONE = "alone"
    POD = "pod"


@dataclass(slots=True)
class Fault:
    """One fault of one test. What it notes travels with pytest's report of the test, so that it
    counts only where the test has passed, in whichever process that was."""

    test: str
    noted: dict[str, Any] = field(default_factory=dict)
    begun: float | None = None

    def row(self, kind: Kind, what: str, promise: str, *, under: Under = Under.STANDIN) -> None:
        """Say which row of the page this is."""
        self.noted |= {"kind": kind.value, "fault": what, "promise": promise, "with": under.value}
        self.noted |= {"times": [], "notes": []}

    def begins(self) -> None:
        """The fault happens now."""
        self.begun = time.monotonic()

    def within(self, bound: float, what: str, *, took: float | None = None) -> None:
        """`what` has happened, now or `took` seconds after the fault: not later than the bound."""
        if took is None:
            assert self.begun is not None, "the fault has not begun"
            took = time.monotonic() - self.begun
        assert took <= bound, f"{what} after {took:.1f} s, promised within {bound:g} s"
        self.noted["times"].append([what, took, bound])

    def note(self, text: str) -> None:
        """Something seen that is no time; what it says has been asserted."""
        self.noted["notes"].append(text)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the page; `test` is pytest's id of the test."""

    kind: str
    fault: str
    promised: str
    seen: str
    under: str
    measured: str
    test: str

    def line(self) -> str:
        """The row in Markdown."""
        path, _, name = self.test.partition("::")
        cells = (self.fault, self.promised, self.seen, self.under, self.measured)
        told = (cell.replace("\\|", "|").replace("|", "/") for cell in cells)
        return f"| {' | '.join(told)} | `{path.removeprefix('tests/')}::{name}` |"


def row_of(test: str, noted: dict[str, Any]) -> Row:
    """The row of what a test has noted."""
    bounds = ", ".join(f"{what} ≤ {bound:g} s" for what, _, bound in noted["times"])
    took = [f"{what} {_seconds(seconds)}" for what, seconds, _ in noted["times"]]
    return Row(
        kind=noted["kind"],
        fault=noted["fault"],
        promised=f"{noted['promise']} ({bounds})",
        seen="; ".join([", ".join(took), *noted["notes"]]),
        under=noted["with"],
        measured=_measured(),
        test=test,
    )


def rows_of(text: str) -> Iterator[Row]:
    """The rows of a page."""
    _, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    for section in sections:
        kind, _, body = section.partition("\n")
        for line in body.splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == len(_COLUMNS) and cells[-1].startswith("`"):
                fault, promised, seen, under, measured, test = cells
                test = f"tests/{test.strip('`')}"
                yield Row(kind.strip(), fault, promised, seen, under, measured, test)


def page_of(rows: Iterable[Row]) -> str:
    """The page: a table for each kind, its rows by fault, then by test."""
    known = sorted(rows, key=lambda row: (row.fault, row.test))
    parts = [HEAD]
    for kind in Kind:
        lines = [row.line() for row in known if row.kind == kind]
        if lines:
            head = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
            parts.append("\n".join([f"## {kind}", "", *head, *lines, ""]))
    return "\n".join(parts)


class Recorder:
    """Of a pytest run: collects the rows of tests that passed, and writes them when it ends."""

    def __init__(self, page: Path = PAGE) -> None:
        self._page = page
        self._rows: dict[str, Row] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pytest's hook, called where the run is controlled."""
        if report.when == "call" and report.passed:
            for name, noted in report.user_properties:
                if name == PROPERTY and isinstance(noted, dict) and noted.get("times"):
                    self._rows[report.nodeid] = row_of(report.nodeid, noted)

    def pytest_sessionfinish(self) -> None:
        """Pytest's hook."""
        if self._rows:
            old = rows_of(self._page.read_text()) if self._page.exists() else ()
            rows = {row.test: row for row in old} | self._rows
            self._page.write_text(page_of(rows.values()))


def configure(config: pytest.Config) -> None:
    """Record this run, if it is to be recorded; its workers only report."""
    if os.environ.get(SWITCH) == "write" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Fault:
    """The row of this test."""
    found = Fault(request.node.nodeid)
    request.node.user_properties.append((PROPERTY, found.noted))
    return found


def _measured() -> str:
    load = os.getloadavg()[0]
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load {load:.0f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"
