"""What the demo writes down about its own speed, and of which runs `make bench` makes figures."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.bench.demo_times import demo_times
from tests.support.demo.record import IMAGES, Kind, Record, kind_of_run
from tests.support.onenode import COMMAND, ROOT, run


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no compiled Go."""
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GOCACHE", str(tmp_path / "go-build"))
    monkeypatch.setenv("KINDLING_TORCH_INDEX", "")
    return tmp_path / "cache"


def _build_programs() -> None:
    """Folders in their place are what the scripts take for built programs."""
    for folder in run(COMMAND, "missing", "core", seconds=60).split():
        Path(folder).mkdir(parents=True)


def _build_images() -> None:
    """Empty images with the tags of this checkout."""
    environment = {**os.environ, "CACHE": os.environ["KINDLING_CACHE"]}
    buildah = ROOT / "images" / "lib" / "buildah"

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [buildah, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.strip()

    container = call("from", "scratch")
    for line in run(ROOT / "images" / "build", "--missing", *IMAGES, seconds=60).split():
        call("commit", "--quiet", container, f"localhost/kindling/{line.replace('=', ':')}")
    call("rm", container)


def test_a_run_is_cold_while_nothing_is_there(cache: Path) -> None:
    assert kind_of_run("demo") is Kind.COLD


@pytest.mark.parametrize(
    "part", ["bin/core-0123", "images/storage/overlay", "wheels/.done", "../go-build/00"]
)
def test_it_is_not_while_part_of_what_is_needed_is_there(part: str, cache: Path) -> None:
    """core-0123 is of another version of the sources."""
    (cache / part).mkdir(parents=True)

    assert kind_of_run("demo") is Kind.PARTIAL


@pytest.mark.cluster
def test_it_is_warm_when_nothing_has_to_be_built_or_pushed(cache: Path) -> None:
    _build_programs()
    assert kind_of_run("demo") is Kind.PARTIAL, "the images have to be built"
    _build_images()
    assert kind_of_run("demo") is Kind.PARTIAL, "the registry has none of them"

    (cache / "cluster" / "demo" / "var" / "lib" / "registry" / "docker").mkdir(parents=True)

    assert kind_of_run("demo") is Kind.WARM


@pytest.mark.parametrize("kind", Kind)
def test_figures_are_made_of_warm_and_cold_runs_alone(kind: Kind, tmp_path: Path) -> None:
    record = Record(kind, say=print)
    with record.step("one"):
        pass
    record.save(tmp_path)

    assert [figure.name for figure in demo_times(tmp_path)] == [
        f"make demo, {kind}" for kind in (kind,) if kind in {Kind.WARM, Kind.COLD}
    ]


def test_steps_that_end_well_are_kept_with_their_time(tmp_path: Path) -> None:
    told: list[str] = []
    record = Record(Kind.WARM, say=told.append)
    with record.step("one"):
        pass
    with pytest.raises(ZeroDivisionError), record.step("two"):
        raise ZeroDivisionError
    record.save(tmp_path / "demo")

    written = json.loads((tmp_path / "demo" / "times-warm.json").read_text())
    assert [title for title, _ in written["steps"]] == ["one"]
    assert 0 <= written["seconds"] < 60
    assert told == ["== one", "== two"]
    assert str(record).endswith("together (warm)")
