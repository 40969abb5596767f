"""Files that are not what they should be: as they come, and later in the cache."""

import os
from pathlib import Path

import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind, Under
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.fetching import ENDS_WITHIN, published
from tests.support.weights.store import files_of

from kindling_runtime.contract import Reason

MIB = 1 << 20


@pytest.mark.parametrize("kind", ["hub_uri", "s3_uri"])
async def test_content_that_does_not_fit_its_checksum_is_fetched_again_and_then_refused(
    kind: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        f"content that does not fit the store's checksum ({kind})",
        {
            "hub_uri": "once more, then `ChecksumMismatch`, exit 78; nothing is published",
            "s3_uri": "once more, then taken, exit 0, since an ETag may be no MD5: log and last "
            "words name the file, the manifest has `Length`",
        }[kind],
        under=Under.STORE,
    )
    name = "model-00000.safetensors"
    async with stores.running(files_of(2 * MIB), corrupt={name}) as store:
        plan = runs.fetch_plan(getattr(store, kind), tmp_path / "volume")
        fault.begins()
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        fault.within(ENDS_WITHIN, "ended")
        if kind == "hub_uri":
            assert run.reason is Reason.CHECKSUM_MISMATCH
            assert run.message.startswith(f"{name} has come twice with a content that")
            assert not published(tmp_path / "volume")
        # An ETag of S3 may be no checksum, which is so if the same content comes twice.
        else:
            assert run.process.returncode == 0
            manifest = (tmp_path / "volume/weights" / runs.KEY / ".kindling.json").read_text()
            assert manifest.count('"basis":"Length"') == 1
            doubts = f"; 1 of 3 files do not fit the MD5 that their ETag looks like ({name}), as is"
            assert f" WARNING published {tmp_path}/volume/weights/{runs.KEY}{doubts}" in run.log
            assert run.message.startswith(f"2.0 MiB are in the cache{doubts}")
            # Whoever finds it there later is told too.
            later = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
            assert later.message == run.message
        assert store.sent >= store.size + 2 * MIB


@pytest.mark.parametrize("damage", ["truncated", "gone", "rewritten"])
async def test_a_damaged_file_of_the_cache_is_fetched_again_and_only_that(
    damage: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        f"a file in the cache is {damage}",
        "that file comes again, and only that",
        under=Under.STORE,
    )
    async with stores.running(files_of(2 * MIB, 3 * MIB)) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        await runs.fetched(plan, tmp_path / "a", store.environment)
        victim = tmp_path / "volume/weights" / runs.KEY / "model-00000.safetensors"
        if damage == "gone":
            victim.unlink()
        elif damage == "truncated":
            os.truncate(victim, MIB)
        else:
            victim.write_bytes(b"\0" * 2 * MIB)
        before = store.sent
        fault.begins()
        run = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert run.process.returncode == 0, run.log
        fault.within(ENDS_WITHIN, "repaired")
        assert published(tmp_path / "volume") == store.files
        assert store.sent - before == 2 * MIB


async def test_files_that_the_source_has_no_more_are_not_published(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "SIGKILL while it downloads; then the source has other files",
        "published is what the source has now, and nothing else",
        under=Under.STORE,
    )
    before = {**files_of(4 * MIB, 4 * MIB), "model.safetensors.index.json": b"{}"}
    async with stores.running(before, hangs_after=6 * MIB) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        async with runs.fetching(plan, tmp_path / "a", store.environment) as run:
            await pods.until(lambda: store.sent >= 6 * MIB)
            run.process.kill()
        store.files = {"config.json": b"{}", "model.safetensors": os.urandom(2 * MIB)}
        store.hangs_after = None
        fault.begins()
        last = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert last.process.returncode == 0, last.log
        fault.within(ENDS_WITHIN, "published")
        folder = tmp_path / "volume/weights" / runs.KEY
        assert sorted(p.name for p in folder.iterdir()) == [".kindling.json", *sorted(store.files)]
        assert published(tmp_path / "volume") == store.files


async def test_what_no_manifest_names_leaves_the_published_folder_and_nothing_else_does(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "files in a published folder that its manifest does not name",
        "removed before an engine starts; links are not followed, nothing is fetched",
        under=Under.STORE,
    )
    (outside := tmp_path / "outside").mkdir()
    (outside / "precious").touch()
    async with stores.running(files_of(2 * MIB)) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        await runs.fetched(plan, tmp_path / "a", store.environment)
        folder = tmp_path / "volume/weights" / runs.KEY
        kept = {path: path.stat().st_ino for path in folder.rglob("*")}
        (folder / "model.safetensors.index.json").write_text("{}")
        (folder / "sub/old").mkdir()
        (folder / "sub/old/model-00001.safetensors").touch()
        (folder / "link").symlink_to(outside, target_is_directory=True)
        (folder / "sub/.nfs0000000000c0ffee").touch()
        before = store.sent
        fault.begins()
        run = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert run.process.returncode == 0, run.log
        fault.within(ENDS_WITHIN, "removed")
        (folder / "sub/.nfs0000000000c0ffee").unlink()
        assert {path: path.stat().st_ino for path in folder.rglob("*")} == kept
    assert store.sent == before
    assert (outside / "precious").exists()
    assert not any((tmp_path / "volume/trash").iterdir())


async def test_verify_finds_damage_that_kept_size_and_time(tmp_path: Path) -> None:
    async with stores.running(files_of(2 * MIB)) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        await runs.fetched(plan, tmp_path / "a", store.environment)
        victim = tmp_path / "volume/weights" / runs.KEY / "model-00000.safetensors"
        times = victim.stat()
        victim.write_bytes(b"\0" * 2 * MIB)
        os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
        async with runs.fetching(
            plan, tmp_path / "b", store.environment, arguments=("--verify",)
        ) as run:
            assert await run.exit_status() == 0
        assert published(tmp_path / "volume") == store.files
