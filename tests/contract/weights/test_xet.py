"""Files of the hub that come by hf_xet, from storage that holds what hf_xet made of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.waiting import until
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights import xet
from tests.support.weights.store import Store, files_of
from tests.support.weights.xet import Xet

from kindling_runtime.weights.volume import JOURNAL

MIB = 1 << 20
TOKEN = "hf_token-of-the-tests"


@contextlib.asynccontextmanager
async def hub_with_xet(folder: Path, *sizes: int) -> AsyncIterator[tuple[Store, Xet]]:
    """A hub whose large files are in Xet storage."""
    files = files_of(*sizes)
    large = {path: content for path, content in files.items() if len(content) > MIB}
    (folder / "xet").mkdir()
    async with (
        xet.serving(folder / "xet", large) as storage,
        stores.running(files, xet=True, xet_hashes=storage.hashes, token=TOKEN) as hub,
    ):
        hub.xet_token = xet.read_token(storage)
        yield hub, storage


def environment(hub: Store, folder: Path) -> dict[str, str]:
    return {**hub.environment, "HF_TOKEN": TOKEN, "HF_HOME": str(folder / "hf")}


def published(folder: Path) -> dict[str, bytes]:
    return runs.published(folder / "volume")


async def test_large_files_come_by_xet_and_nothing_of_them_by_http(tmp_path: Path) -> None:
    async with hub_with_xet(tmp_path, 5 * MIB, 3 * MIB + 12_345) as (hub, storage):
        plan = runs.fetch_plan(hub.hub_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", environment(hub, tmp_path))
        assert run.process.returncode == 0, run.log
        assert published(tmp_path) == hub.files
        assert storage.sent >= 8 * MIB
        assert hub.sent < MIB
        assert "by HTTP" not in run.log
        for secret in (TOKEN, xet.TOKEN):
            assert secret not in run.log + run.message


async def test_a_fetch_that_is_killed_goes_on_by_xet_where_it_was(tmp_path: Path) -> None:
    async with hub_with_xet(tmp_path, 16 * MIB) as (hub, storage):
        plan = runs.fetch_plan(hub.hub_uri, tmp_path / "volume")
        storage.hangs_after = 12 * MIB
        async with runs.fetching(plan, tmp_path / "a", environment(hub, tmp_path)) as run:
            async with asyncio.timeout(45):
                await storage.stuck.wait()
            # Ten ranges are on their way at most, so some have been written.
            parts = tmp_path / "volume/partial" / runs.KEY
            await asyncio.to_thread(until, "a journal", lambda: _noted(parts), seconds=10)
            run.process.kill()
        before = storage.sent
        storage.release()
        last = await runs.fetched(plan, tmp_path / "a", environment(hub, tmp_path))
        assert last.process.returncode == 0, last.log
        assert published(tmp_path) == hub.files
        # By chunks, of which one at each end of a range comes with both.
        assert storage.sent - before < 16 * MIB
        assert hub.sent < MIB


async def test_what_xet_cannot_send_any_more_comes_by_http(tmp_path: Path) -> None:
    async with hub_with_xet(tmp_path, 16 * MIB) as (hub, storage):
        plan = runs.fetch_plan(hub.hub_uri, tmp_path / "volume")
        storage.fails_after = 4 * MIB
        run = await runs.fetched(plan, tmp_path / "a", environment(hub, tmp_path))
        assert run.process.returncode == 0, run.log
        assert published(tmp_path) == hub.files
        assert "going on by HTTP" in run.log
        assert storage.sent >= 4 * MIB
        assert 0 < hub.sent < 16 * MIB + MIB
        assert TOKEN not in run.log


def _noted(folder: Path) -> bool:
    return any(path.stat().st_size for path in folder.glob(f"{JOURNAL}*"))
