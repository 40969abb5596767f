"""What the demo writes down about its own speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.demo.record import Record, kind_of_run


def test_a_run_is_cold_until_kubernetes_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path))
    assert kind_of_run("demo") == "cold"

    (tmp_path / "bin" / "core-1234").mkdir(parents=True)
    assert kind_of_run("demo") == "warm"


def test_steps_that_end_well_are_kept_with_their_time(tmp_path: Path) -> None:
    told: list[str] = []
    record = Record("warm", say=told.append)
    with record.step("one"):
        pass
    with pytest.raises(ZeroDivisionError), record.step("two"):
        raise ZeroDivisionError
    record.save(tmp_path / "demo")

    written = json.loads((tmp_path / "demo" / "warm.json").read_text())
    assert [title for title, _ in written["steps"]] == ["one"]
    assert 0 <= written["seconds"] < 60
    assert told == ["== one", "== two"]
    assert str(record).endswith("together (warm)")
