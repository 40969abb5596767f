"""Shared memory of dead engines."""

import mmap
from pathlib import Path

from kindling_runtime import leftovers


def test_what_engines_left_is_removed_and_its_blocks_counted(tmp_path: Path) -> None:
    (tmp_path / "vllm_offload_1.mmap").write_bytes(b"x" * 8192)
    (tmp_path / "psm_2").write_bytes(b"x" * 4096)

    assert leftovers.remove(tmp_path) == 12288
    assert list(tmp_path.iterdir()) == []


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
