"""images/lock notices what the index and the inputs say against the lock files (asks the index)."""

import re
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


@pytest.mark.parametrize("hashes", ["altered", "dropped"])
def test_a_lock_with_other_hashes_than_the_index_has_is_stale(hashes: str, tmp_path: Path) -> None:
    root = copy_of_repository(tmp_path)
    lock = root / "images" / "runtime" / "requirements.lock"
    first = re.search(r"\n +--hash=sha256:[0-9a-f]{64} \\(?=\n +--hash)", lock.read_text())
    assert first is not None
    other = re.sub("[0-9a-f]{64}", "0" * 64, first[0]) if hashes == "altered" else ""
    lock.write_text(lock.read_text().replace(first[0], other, 1))
    with pytest.raises(CommandError, match=r"images/runtime/requirements\.lock is stale: run "):
        check(root)


def test_a_package_without_a_wheel_for_arm64_is_refused(tmp_path: Path) -> None:
    root = copy_of_repository(tmp_path)
    with (root / "images" / "runtime" / "requirements.in").open("a") as inputs:
        inputs.write("intel-openmp==2024.2.1\n")
    with pytest.raises(CommandError, match="cannot be resolved for aarch64: "):
        check(root)
