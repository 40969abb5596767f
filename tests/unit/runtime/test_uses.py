"""The mark that a pod uses what is in a claim, at each stage of the pod's life."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.engine import pod as pods
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.store import files_of

from kindling_runtime.weights import uses
from kindling_runtime.weights.board import Board
from kindling_runtime.weights.eviction import IDLE_SECONDS
from kindling_runtime.weights.fetch import Fetcher
from kindling_runtime.weights.lease import Leases
from kindling_runtime.weights.volume import Volume

MIB = 1 << 20
KEYS = (f"weights/{runs.KEY}", "kernels/tiny")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "_BEAT_SECONDS", 0.02)


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    made = Volume(tmp_path / "volume")
    made.prepare()
    return made


@contextlib.asynccontextmanager
async def downloading(volume: Volume, patch: pytest.MonkeyPatch) -> AsyncIterator[stores.Store]:
    """A fetch, in this process, of a store that sends only 1 MiB until it is told otherwise."""
    async with stores.running(files_of(2 * MIB), hangs_after=MIB) as store:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        plan = runs.fetch_plan(store.s3_uri, volume.root, kernels=KEYS[1])
        assert plan.weights.fetch is not None
        fetcher = Fetcher(plan.weights, plan.weights.fetch, owner="pod-1", board=Board())
        running = asyncio.create_task(fetcher.run())
        try:
            yield store
            store.hangs_after = None
            await asyncio.wait_for(running, 60)
        finally:
            running.cancel()


async def _renewed(volume: Volume) -> None:
    """Whatever becomes of the mark, it is soon whole again."""
    folder = volume.uses / "pod-1"
    await pods.until((folder / "beat").exists)
    for harm in (_aged, _removed, _aged):
        harm(folder)
        await pods.until(lambda: uses.in_use(volume, now=volume.now()) == set(KEYS))


def _aged(folder: Path, seconds: float = 2 * IDLE_SECONDS) -> None:
    moment = time.time() - seconds
    os.utime(folder / "beat", (moment, moment))


def _removed(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


async def test_who_downloads_for_longer_than_a_mark_holds_is_not_evicted(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with downloading(volume, monkeypatch) as store:
        await pods.until(lambda: store.sent >= MIB)
        await _renewed(volume)


async def test_who_waits_for_another_ones_download_for_longer_than_a_mark_holds_is_not_evicted(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = Leases(volume.leases, runs.KEY, owner="pod-2")
    held = others.take()
    assert held is not None
    async with downloading(volume, monkeypatch) as store:
        await _renewed(volume)
        assert store.sent == 0
        held.release(others)


async def test_an_engine_that_was_taken_for_dead_makes_its_mark_whole_again(volume: Volume) -> None:
    ended = uses.keep(volume.uses / "pod-1", KEYS)
    try:
        await _renewed(volume)
    finally:
        ended.set()


@pytest.mark.parametrize(
    ("age", "holds", "stays"),
    [
        (IDLE_SECONDS - 60, True, True),
        (IDLE_SECONDS + 60, False, True),
        # An engine's container has the folder mounted: a day without its file server.
        (86400.0, False, True),
        (uses.FORGOTTEN_SECONDS - 60, False, True),
        (uses.FORGOTTEN_SECONDS + 60, False, False),
    ],
)
def test_a_mark_that_stands_still_holds_nothing_soon_and_goes_much_later(
    age: float, holds: bool, stays: bool, volume: Volume
) -> None:
    uses.mark(volume.uses / "pod-1", KEYS)
    _aged(volume.uses / "pod-1", age)
    used = uses.in_use(volume, now=volume.now())
    assert used == (set(KEYS) if holds else set())
    assert (volume.uses / "pod-1").exists() == stays
