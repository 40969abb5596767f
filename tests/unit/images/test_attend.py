"""What a person sees during a long part of a build: how long it takes, its steps, signs of life."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support.onenode import ROOT

PRELUDE = """
set -euo pipefail
root=$1 log=$2
source "$root/images/lib/common.sh"
source "$root/images/lib/attend.sh"
TELL_SECONDS=1
"""


def attended(script: str, log: Path) -> subprocess.CompletedProcess[str]:
    """Run `attend LOG "building it" "2 minutes" bash -c SCRIPT`."""
    command = PRELUDE + 'attend "$log" "building it" "2 minutes" bash -c "$3"'
    return subprocess.run(
        ["bash", "-c", command, "bash", ROOT, log, script],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_it_says_beforehand_how_long_it_takes(tmp_path: Path) -> None:
    done = attended("true", tmp_path / "log")

    assert done.stderr.endswith(" s  building it; it usually takes 2 minutes\n")
    assert done.stdout == ""


def test_steps_are_told_in_short_and_everything_is_in_the_log(tmp_path: Path) -> None:
    step = "STEP 6/16: RUN --mount=type=bind,from=uv   /opt/steps/install-wheels torch.lock"
    done = attended(f"echo '{step}'; echo other; echo problem >&2", tmp_path / "log")

    told = done.stderr.splitlines()[1:]
    assert told == ["images:           6/16: RUN /opt/steps/install-wheels torch.lock"]
    assert (tmp_path / "log").read_text() == f"{step}\nother\nproblem\n"


@pytest.mark.parametrize("output", ["", "while sleep 0.1; do echo copied; done & "])
def test_a_silent_part_gives_a_sign_of_life(output: str, tmp_path: Path) -> None:
    """Also one whose output tells a person nothing."""
    script = f"echo STEP 2/3: RUN install; {output}sleep 1.2; kill %1 2>/dev/null; true"
    done = attended(script, tmp_path / "log")

    told = done.stderr.splitlines()
    assert any(line.endswith("building it: 1 s so far; 2/3: RUN install") for line in told), told


def test_its_exit_code_is_the_programs(tmp_path: Path) -> None:
    assert attended("echo no space; exit 7", tmp_path / "log").returncode == 7
