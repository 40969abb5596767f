"""Shared memory of dead engines."""

import mmap
from pathlib import Path

import pytest

from kindling_runtime import leftovers


def test_what_engines_left_is_removed_and_its_blocks_counted(tmp_path: Path) -> None:
    (tmp_path / "vllm_offload_1.mmap").write_bytes(b"x" * 8192)
    (tmp_path / "psm_2").write_bytes(b"x" * 4096)

    assert leftovers.remove(tmp_path) == 12288
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "vllm_offload_1.mmap",
        "vllm_ec_0a1b.mmap",
        "vllm_mm_kJ3-_vQ0S8uX5m2bYt7aFw",
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_1f",
        "psm_abcd1234",
        "sem.mp-x1y2z3w4",
        "torch_99_1804289383_0",
        "nccl-Ab12Cd",
    ],
)
def test_every_name_that_an_engine_gives_is_known(name: str, tmp_path: Path) -> None:
    (file := tmp_path / name).write_bytes(b"x" * 4096)
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 4096):
        assert leftovers.remove(tmp_path) == 0
    assert leftovers.remove(tmp_path) == 4096


@pytest.mark.parametrize("name", ["torch_shm_manager", "nccl-tests.log", "cuda.shm.0.1.1"])
def test_names_that_only_look_like_it_stay(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")

    assert leftovers.remove(tmp_path) == 0
    assert (tmp_path / name).exists()


def test_sparse_files_count_what_they_take(tmp_path: Path) -> None:
    with (tmp_path / "psm_1").open("wb") as file:
        file.truncate(2**30)

    assert leftovers.remove(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_other_files_and_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"x")
    (tmp_path / "psm_folder").mkdir()

    assert leftovers.remove(tmp_path) == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine", "psm_folder"]


def test_what_a_living_process_has_mapped_stays(tmp_path: Path) -> None:
    used = tmp_path / "psm_used"
    used.write_bytes(b"x" * 4096)
    with used.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert leftovers.remove(tmp_path) == 0
        assert used.exists()

    assert leftovers.remove(tmp_path) == 4096


def test_no_folder_is_no_problem(tmp_path: Path) -> None:
    assert leftovers.remove(tmp_path / "shm") == 0
