"""The end of a fetch: with a fault of its own, and in the middle of publishing."""

from pathlib import Path

import pytest
from tests.support.weights import fetching as runs

from kindling_runtime.contract import Reason
from kindling_runtime.weights import fetch, manifest, process, strays
from kindling_runtime.weights.board import Board


async def test_a_fault_of_its_own_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(_: fetch.Fetcher) -> None:
        raise ValueError("a\nb")

    monkeypatch.setattr(fetch.Fetcher, "run", run)
    plan = runs.fetch_plan("hf://org/tiny", tmp_path / "volume")
    assert plan.weights.fetch is not None
    fetcher = fetch.Fetcher(plan.weights, plan.weights.fetch, owner="pod", board=Board())

    assert await process._outcome(fetcher, plan) == (
        Reason.RUNTIME_FAILED,
        "the fetch itself failed with ValueError: a b; report its log",
    )


def test_a_kill_at_the_moment_of_publishing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher = _fetcher(tmp_path)
    partial, _ = _folders(tmp_path)
    (journal := partial / ".kindling-journal.1").touch()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        fetcher._publish(manifest.Manifest(uri="hf://org/tiny", revision=""), repairs=False)
    assert journal.exists()


def test_what_a_frozen_pod_left_beside_the_files_is_not_published(tmp_path: Path) -> None:
    fetcher = _fetcher(tmp_path)
    partial, weights = _folders(tmp_path)
    for name in ("a", "sub/b"):
        _write(partial / name)
    for name in ("old", "sub/old/c", ".kindling-journal.1", ".kindling.json.7", ".hidden"):
        _write(partial / name)
    (partial / "link").symlink_to(tmp_path)
    made = manifest.Manifest(uri="hf://org/tiny", revision="", files=_entries("a", "sub/b"))
    fetcher._publish(made, repairs=False)
    folder = weights / runs.KEY
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    assert found == [".kindling.json", "a", "sub", "sub/b"]


def test_of_a_link_in_the_place_of_a_folder_it_alone_goes(tmp_path: Path) -> None:
    _write(tmp_path / "outside/precious")
    _write(tmp_path / "folder/a")
    (tmp_path / "folder/sub").symlink_to(tmp_path / "outside", target_is_directory=True)
    (tmp_path / "all").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert [*strays.beside(tmp_path / "folder", ["a", "sub/b"])] == [tmp_path / "folder/sub"]
    assert not [*strays.beside(tmp_path / "all", ["a"])]


async def test_who_gets_the_lease_after_another_has_published_does_not_download_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def download(_: fetch.Fetcher, number: int, broken: object) -> None:
        asked.append(number)

    monkeypatch.setattr(fetch.Fetcher, "_download", download)
    fetcher = _fetcher(tmp_path)
    await fetcher._mend(1, None)
    partial, _ = _folders(tmp_path)
    _write(partial / "a")
    made = manifest.Manifest(uri="hf://org/tiny", revision="", files=_entries("a"))
    fetcher._publish(made, repairs=False)
    await fetcher._mend(2, None)
    assert asked == [1]


def test_what_is_published_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher = _fetcher(tmp_path)
    partial, weights = _folders(tmp_path)
    done: list[tuple[str, Path]] = []
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        done.append(("rename", target))
        return moved

    monkeypatch.setattr(fetch, "flush", lambda path: done.append(("flush", path)))
    monkeypatch.setattr(Path, "rename", renamed)
    fetcher._publish(manifest.Manifest(uri="hf://org/tiny", revision=""), repairs=False)
    assert done == [
        ("rename", partial / ".kindling.json"),
        ("flush", partial),
        ("rename", weights / runs.KEY),
        ("flush", weights),
    ]


def _fetcher(folder: Path) -> fetch.Fetcher:
    plan = runs.fetch_plan("hf://org/tiny", folder / "volume")
    assert plan.weights.fetch is not None
    return fetch.Fetcher(plan.weights, plan.weights.fetch, owner="pod", board=Board())


def _folders(folder: Path) -> tuple[Path, Path]:
    """That of the download, and that of all published ones."""
    partial, weights = folder / "volume/partial" / runs.KEY, folder / "volume/weights"
    for each in (partial, weights, folder / "volume/trash"):
        each.mkdir(parents=True)
    return partial, weights


def _entries(*names: str) -> tuple[manifest.Entry, ...]:
    return tuple(manifest.Entry(path=name, size=1, mtime_ns=1, blake3="x") for name in names)


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
