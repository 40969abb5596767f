"""images/lock notices what the index and the inputs say against the lock files (asks the index)."""

from pathlib import Path

import pytest
from tests.images.built import copy_of_repository
from tests.support.onenode import CommandError, run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def check(root: Path) -> None:
    run(root / "images" / "lock", "--check", seconds=240, say=print)


def test_a_lock_that_its_inputs_do_not_give_is_stale(tmp_path: Path) -> None:
    root = copy_of_repository(tmp_path)
    lock = root / "images" / "operator" / "requirements.lock"
    lock.write_text(lock.read_text() + "iniconfig==2.3.0\n")
    with pytest.raises(CommandError, match=r"images/operator/requirements\.lock is stale: run "):
        check(root)


def test_a_package_without_a_wheel_for_arm64_is_refused(tmp_path: Path) -> None:
    root = copy_of_repository(tmp_path)
    with (root / "images" / "runtime" / "requirements.in").open("a") as inputs:
        inputs.write("intel-openmp==2024.2.1\n")
    with pytest.raises(CommandError, match="cannot be resolved for aarch64: "):
        check(root)
