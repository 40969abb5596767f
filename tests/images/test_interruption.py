"""A build that is ended in the middle leaves nothing that is mounted, runs or stays for ever.

Real buildah with a base image of a few programs of this machine, in a cache of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.images.built import copy_of_repository
from tests.support.onenode import COMMAND, ROOT
from tests.support.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

NAP: Final = "86399.25"
"""Seconds for which a step of the builds here sleeps; no other program of the machine does."""

BASE: Final = r"""#!/bin/bash
set -eu
programs="/bin/sh /bin/sleep /bin/touch"
tar --create --dereference --absolute-names --file "$1" $programs \
  $(ldd $programs | sed -n 's/.* \(\/[^ ]*\) (.*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' | sort -u)
"""
STEPS: Final = "ARG BASE\nFROM ${BASE}\nRUN touch /packages\nRUN touch /more\n"

End = Callable[[subprocess.Popen[str]], None]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The scripts with a base image of a few programs and an operator image of a few steps."""
    root = copy_of_repository(tmp_path / "copy")
    shutil.copy(ROOT / "tests" / "support" / "purge", root / "tests" / "support")
    shutil.copytree(COMMAND.parent, root / "tests" / "support" / "cluster", dirs_exist_ok=True)
    (root / "images" / "lib" / "debian.sh").write_text(BASE)
    (root / "images" / "operator" / "requirements.lock").write_text("")
    containerfile(root, STEPS)
    return root


def containerfile(root: Path, text: str) -> None:
    (root / "images" / "operator" / "Containerfile").write_text(text)


def cache(root: Path) -> Path:
    return root.parent / "cache"


def environment(root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "KINDLING_TORCH_INDEX": "",
        "KINDLING_CACHE": str(cache(root)),
        "CACHE": str(cache(root)),
    }


def call(root: Path, *command: str) -> str:
    """stdout of one of the copy's scripts."""
    done = subprocess.run(
        [root / command[0], *command[1:]],
        env=environment(root),
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(root: Path) -> str:
    return call(root, "images/build", "operator")


def mounts(root: Path) -> list[str]:
    return re.findall(rf" ({re.escape(str(cache(root)))}\S*) ", Path("/proc/mounts").read_text())


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text().split("\0")[:2] == ["sleep", NAP]:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@contextmanager
def in_the_middle(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A build whose last step runs."""
    containerfile(root, f"{STEPS}RUN sleep {NAP}\n")
    with subprocess.Popen(
        # Where the tests run in the background, SIGINT would be ignored in all that they start.
        ["env", "--default-signal=INT", root / "images" / "build", "operator"],
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until("the step to run", lambda: bool(sleepers()), seconds=120)
            yield process
        finally:
            process.kill()


def _terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()


def _press_ctrl_c(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()


@pytest.mark.parametrize("end", [_terminate, _press_ctrl_c, _kill])
def test_an_ended_build_leaves_no_mount_and_no_process(copy: Path, end: End) -> None:
    with in_the_middle(copy) as process:
        assert mounts(copy) == []
        end(process)
        code = process.wait(timeout=20)
        assert code in {130, 143, -signal.SIGKILL}
        until("its step to end", lambda: not sleepers(), seconds=10)

    assert mounts(copy) == []
    shutil.rmtree(cache(copy))  # what `rm -rf` does


def test_the_next_build_takes_the_finished_steps_and_removes_the_container(copy: Path) -> None:
    with in_the_middle(copy) as process:
        process.kill()
        process.wait(timeout=20)
    containerfile(copy, f"{STEPS}RUN touch /last\n")

    build(copy)

    log = (cache(copy) / "images" / "operator.log").read_text()
    assert log.count("Using cache") == 2, log
    assert call(copy, "images/lib/buildah", "containers", "--quiet") == ""


@pytest.fixture
def left_mounted(copy: Path) -> Iterator[Path]:
    """A mount where builds of earlier versions left theirs."""
    layer = cache(copy) / "images" / "storage" / "overlay" / "0123 4567" / "merged"
    layer.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "kindling-test", layer], check=True, timeout=20)
    yield layer
    subprocess.run(["umount", "--lazy", layer], capture_output=True, check=False, timeout=20)


def test_a_build_unmounts_what_an_earlier_version_left(copy: Path, left_mounted: Path) -> None:
    build(copy)

    assert mounts(copy) == []


def test_purge_removes_everything_even_what_is_mounted_and_in_use(
    copy: Path, left_mounted: Path
) -> None:
    with (left_mounted / "held").open("w"):
        call(copy, "images/purge")

    assert mounts(copy) == []
    assert not (cache(copy) / "images").exists()


def test_make_purge_removes_the_whole_cache_and_nothing_of_others(
    copy: Path, left_mounted: Path
) -> None:
    for part in ("bin/core-1234", "cluster/old/var", "demo/logs", "wheels/.done", "uv-1.0/bin"):
        (cache(copy) / part).mkdir(parents=True)
    (cache(copy) / "apt.log").touch()
    (cache(copy) / "letter").write_text("not Kindling's")

    call(copy, "tests/support/purge")

    assert [path.name for path in cache(copy).iterdir()] == ["letter"]
    (cache(copy) / "letter").unlink()
    (cache(copy) / "wheels").mkdir()
    call(copy, "tests/support/purge")
    assert not cache(copy).exists()


def test_builds_of_other_packages_go_and_those_of_the_same_stay(copy: Path) -> None:
    """Three of the same packages, and no layer that belongs to no image."""
    for _ in range(2):
        build(copy)
        (copy / "images" / "operator" / "requirements.lock").write_text("# other packages\n")
    for number in range(4):
        (copy / "operator" / "kindling_operator" / "new.py").write_text(f"NUMBER = {number}\n")
        containerfile(copy, f"{STEPS}COPY operator/kindling_operator/new.py /\n")
        last = build(copy)

    listed = call(
        copy, "images/lib/buildah", "images", "--noheading", "--format", "{{.Name}}:{{.Tag}}"
    )
    images = [line for line in listed.splitlines() if "/operator:" in line]
    assert len(images) == 3
    assert images[0] in last
    dangling = call(copy, "images/lib/buildah", "images", "--quiet", "--filter", "dangling=true")
    assert dangling == ""
    build(copy)
    assert build(copy) == last
