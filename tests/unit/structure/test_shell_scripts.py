"""shellcheck sees every shell script of the project."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support.lint import shell
from tests.support.lint.files import project_files
from tests.support.onenode import ROOT

FAULTY = "\nrm -rf $1/x\n"  # SC2086


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("#!/bin/sh", True),
        ("#!/bin/sh -eu", True),
        ("#! /bin/sh", True),
        ("#!/bin/dash", True),
        ("#!/bin/bash", True),
        ("#!/usr/bin/bash -e", True),
        ("#!/usr/bin/env bash", True),
        ("#!/usr/bin/env -S bash -eu", True),
        ("#!/usr/local/bin/ksh", True),
        ("#!/usr/bin/env python3", False),
        ("#!/usr/bin/fish", False),
        ("#!/usr/bin/env node", False),
        ("# how a script begins: #!/bin/sh", False),
        ("", False),
    ],
)
def test_a_script_is_known_by_its_first_line(first: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "step").write_text(f"{first}\n")

    assert shell.shell_scripts([tmp_path / "step"]) == [tmp_path / "step"] * found


def test_what_is_sourced_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "names.sh").write_text("# shellcheck shell=bash\n")

    assert shell.shell_scripts(tmp_path.iterdir()) == [tmp_path / "names.sh"]


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/usr/bin/env bash"])
def test_a_fault_in_any_script_fails_the_check(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also in one that git does not track yet."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True, timeout=30)
    (tmp_path / "step").write_text(first + FAULTY)
    monkeypatch.chdir(tmp_path)

    assert shell.main() == 1
    printed = capfd.readouterr().out
    assert "shellcheck: 1 scripts" in printed
    assert "SC2086" in printed


def test_the_steps_of_the_images_are_among_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They run under /bin/sh, and have no suffix: what a search for bash leaves out."""
    monkeypatch.chdir(ROOT)

    steps = {path.relative_to(ROOT) for path in (ROOT / "images" / "steps").iterdir()}

    assert steps
    assert steps <= set(shell.shell_scripts(project_files()))


def test_make_lint_runs_it() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "lint"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout

    assert "-m tests.support.lint.shell" in plan
