"""The page of the long runs says of each part when it was measured, and of no part that was not."""

from __future__ import annotations

from pathlib import Path

from tests.soak.result import PAGE, Result, sections_of
from tests.soak.test_streams import REAL_SECTION, SECTION


def test_a_part_that_was_not_run_keeps_its_last_result(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    first = Result()
    first.tell("Repetition", "* five times")
    first.write(page)
    repetition = sections_of(page.read_text())["Repetition"]
    second = Result()
    second.tell("Chaos", "ten faults in 20 minutes")
    second.write(page)

    found = sections_of(page.read_text())

    assert list(found) == ["Chaos", "Repetition"]
    assert found["Repetition"] == repetition
    assert found["Chaos"].endswith("cores.\n\nten faults in 20 minutes")


def test_a_new_result_replaces_the_old_one(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    for line in ("old", "new"):
        result = Result()
        result.tell("Chaos", line)
        result.write(page)

    assert page.read_text().count("## Chaos") == 1
    assert "old" not in page.read_text()


def test_nothing_measured_leaves_the_page_alone(tmp_path: Path) -> None:
    Result().write(tmp_path / "soak.md")

    assert not (tmp_path / "soak.md").exists()


def test_the_page_has_a_result_of_every_part() -> None:
    """What it announces must have been run: a section for each, with its day."""
    found = sections_of(PAGE.read_text())

    assert found.keys() - {REAL_SECTION} == {"Chaos", "Repetition", SECTION}
    assert all(text.startswith("Measured 20") for text in found.values())
