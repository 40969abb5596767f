"""A claim that somebody else has filled: a fetch neither waits for ever nor leaves the claim, and
what it publishes is whole."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.mounts import tmpfs
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.store import files_of

from kindling_runtime.contract import ExitCode, Reason

MIB = 1 << 20
FILE = "model-00000.safetensors"


class Claim:
    """The places of a volume, and one outside of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "volume"
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "precious").write_bytes(b"precious")
        self.weights = self.root / "weights" / runs.KEY
        self.partial = self.root / "partial" / runs.KEY
        for place in ("weights", "partial", "leases", "uses", "trash"):
            (self.root / place).mkdir(parents=True)


def _fifo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def _fifos(claim: Claim) -> None:
    _fifo(claim.weights / ".kindling.json")
    _fifo(claim.partial / ".kindling-journal.7")
    _fifo(claim.root / "uses/stranger/keys")
    (claim.root / "uses/stranger/beat").touch()
    _fifo(claim.root / "trash/fifo")


def _sockets(claim: Claim) -> None:
    for place in (claim.weights / ".kindling.json", claim.root / "uses/here"):
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, stat.S_IFSOCK | 0o600)


def _links(claim: Claim) -> None:
    claim.partial.mkdir()
    (claim.partial / FILE).symlink_to(claim.outside / "precious")
    (claim.partial / "sub").symlink_to(claim.outside, target_is_directory=True)
    (claim.root / "weights/elsewhere").symlink_to(claim.outside, target_is_directory=True)


def _linked_folder(claim: Claim) -> None:
    claim.partial.symlink_to(claim.outside, target_is_directory=True)
    claim.weights.symlink_to(claim.outside, target_is_directory=True)


def _manifest(text: bytes) -> Callable[[Claim], None]:
    def write(claim: Claim) -> None:
        claim.weights.mkdir()
        (claim.weights / ".kindling.json").write_bytes(text)

    return write


def _journals(claim: Claim) -> None:
    claim.partial.mkdir()
    (claim.partial / ".kindling-journal.x").write_text("x")
    (claim.partial / ".kindling-journal.²").write_text("x")
    (claim.partial / ".kindling-journal.3").mkdir()
    with (claim.partial / ".kindling-journal.1").open("wb") as file:
        file.write(b'["' + FILE.encode() + b'",-1,"",-1,"x"]\n["\xff"]\n' + b"[" * 100_000)
        file.truncate(1 << 30)


def _leases(claim: Claim) -> None:
    (claim.root / f"leases/{runs.KEY}.²").touch()
    (claim.root / f"leases/{runs.KEY}.{'9' * 200}").touch()
    (claim.root / f"leases/{runs.KEY}.1").mkdir()
    _fifo(claim.root / f"leases/{runs.KEY}.9223372036854775807")
    (claim.root / f"leases/{runs.KEY}.2").write_bytes(b"\xff" * 512)


def _marks(claim: Claim) -> None:
    for name, keys in {"future": b"weights/old", "binary": b"\xff\0\n/", "empty": b""}.items():
        folder = claim.root / "uses" / name
        folder.mkdir()
        (folder / "keys").write_bytes(keys)
        (folder / "beat").touch()
        os.utime(folder / "beat", (1 << 33, 1 << 33))
    (claim.root / "uses/file").touch()
    (claim.root / "trash/file").touch()


def _in_the_way(claim: Claim) -> None:
    _manifest(
        b'{"uri":"hf://org/tiny","revision":"","files":'
        b'[{"path":"../../../outside/precious","size":8,"mtimeNs":1,"blake3":"x"}]}'
    )(claim)
    (claim.partial / "config.json").mkdir(parents=True)


HARM: dict[str, Callable[[Claim], None]] = {
    "fifos": _fifos,
    "sockets": _sockets,
    "links": _links,
    "a link in the place of the folder": _linked_folder,
    "a manifest that is no UTF-8": _manifest(b'{"uri":"\xff"}'),
    "a manifest without a file": _manifest(b'{"uri":"hf://org/tiny","revision":""}'),
    "a manifest of another source": _manifest(
        b'{"uri":"hf://a/b","revision":"","files":[{"path":"a","size":0,"mtimeNs":1,"blake3":"x"}]}'
    ),
    "a manifest nested without end": _manifest(b'{"a":' * 100_000),
    "a folder in the place of a file": _in_the_way,
    "journals": _journals,
    "leases": _leases,
    "marks of use": _marks,
}


@pytest.mark.parametrize("harm", HARM)
async def test_a_claim_that_others_filled_neither_stops_nor_misleads_a_fetch(
    harm: str, tmp_path: Path
) -> None:
    claim = Claim(tmp_path)
    HARM[harm](claim)
    async with stores.running(files_of(2 * MIB)) as store:
        plan = runs.fetch_plan(store.hub_uri, claim.root)
        async with runs.fetching(
            plan, tmp_path / "a", store.environment, arguments=("--lease-seconds", "2")
        ) as run:
            assert await run.exit_status() == ExitCode.CLEAN, run.log
        assert runs.content(claim.weights) == store.files
    assert runs.content(claim.outside) == {"precious": b"precious"}
    assert not any((claim.root / "trash").iterdir())
    assert "Traceback" not in run.log


async def test_a_mark_from_the_future_holds_for_a_quarter_of_an_hour_and_not_for_ever(
    tmp_path: Path,
) -> None:
    claim = Claim(tmp_path)
    _marks(claim)
    async with stores.running(files_of(MIB)) as store:
        plan = runs.fetch_plan(store.hub_uri, claim.root)
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
    assert run.process.returncode == 0, run.log
    age = time.time() - (claim.root / "uses/future/beat").stat().st_mtime
    assert -5 < age < 120


async def test_two_thousand_tiny_files_come_whole(tmp_path: Path) -> None:
    files = {f"{number // 50}/{number}.json": b"%d" % number for number in range(2000)}
    async with stores.running(files) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert run.process.returncode == 0, run.log
        assert runs.published(tmp_path / "volume") == store.files


@pytest.mark.parametrize("gone", ["sub", "model"])
async def test_a_folder_that_is_gone_or_a_file_in_its_place_is_repaired(
    gone: str, tmp_path: Path
) -> None:
    async with stores.running(files_of(MIB)) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        await runs.fetched(plan, tmp_path / "a", store.environment)
        published = tmp_path / "volume/weights" / runs.KEY
        (published / "sub/tokenizer.json").unlink()
        (published / "sub").rmdir()
        if gone == "model":
            (published / FILE).unlink()
            (published / FILE).mkdir()
            (published / "sub").mkdir()
        run = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert run.process.returncode == 0, run.log
        assert runs.content(published) == store.files


@pytest.fixture(params=[4, 7, 10])
def few_inodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A volume that holds so many files and folders."""
    with tmpfs(tmp_path / "volume", f"size=32m,nr_inodes={request.param}") as root:
        yield request.param, root


async def test_a_volume_without_inodes_is_told_as_that(
    few_inodes: tuple[int, Path], tmp_path: Path
) -> None:
    inodes, root = few_inodes
    async with stores.running(files_of(MIB)) as store:
        plan = runs.fetch_plan(store.s3_uri, root, shared=False)
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
    assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, Reason.CACHE_FULL)
    assert f"(of {inodes} files that it may hold" in run.message
