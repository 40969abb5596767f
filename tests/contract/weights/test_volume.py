"""What a cache volume has room for, what leaves it, and what never does."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind, Under
from tests.support.mounts import tmpfs
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.store import files_of

from kindling_runtime.contract import CACHE_LIMIT_VARIABLE, ExitCode, Fetch, Reason
from kindling_runtime.weights.eviction import IDLE_SECONDS

MIB = 1 << 20
BUDGET = 10 * MIB


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A volume of 16 MiB."""
    with tmpfs(tmp_path / "disk", "size=16m") as folder:
        yield folder


async def test_a_volume_that_is_too_small_is_refused_before_the_first_byte(
    small_disk: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "no room on the volume",
        "before the first byte: `CacheFull` with what is short, exit 78",
        under=Under.STORE,
    )
    async with stores.running(files_of(20 * MIB)) as store:
        fault.begins()
        for shared, fix in ((False, "give the pod's node"), (True, "enlarge the claim by that")):
            plan = runs.fetch_plan(store.s3_uri, small_disk, shared=shared)
            run = await runs.fetched(plan, tmp_path / f"run-{shared}", store.environment)
            assert run.process.returncode == ExitCode.PREFLIGHT
            assert run.reason is Reason.CACHE_FULL
            assert run.message.startswith("20.0 MiB of weights are to come")
            assert fix in run.message
        fault.within(2 * (10 + pods.ROOM), "two fetches refused")
        assert store.sent == 0


async def test_a_disk_that_becomes_full_ends_in_one_sentence_and_the_next_attempt_goes_on(
    small_disk: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "the disk becomes full while it downloads",
        "`CacheFull`, exit 78; goes on once there is room",
        under=Under.STORE,
    )
    async with stores.running(files_of(12 * MIB), hangs_after=2 * MIB) as store:
        plan = runs.fetch_plan(store.s3_uri, small_disk, shared=False)
        async with runs.fetching(plan, tmp_path / "a", store.environment) as run:
            await pods.until(lambda: store.sent >= 2 * MIB)
            _fill(small_disk / "others")
            fault.begins()
            store.hangs_after = None
            assert await run.exit_status() == ExitCode.PREFLIGHT
            fault.within(pods.ROOM, "exit 78")
        assert run.reason is Reason.CACHE_FULL
        assert run.message.startswith(f"the volume at {small_disk} became full while")
        (small_disk / "others").unlink()
        again = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert again.process.returncode == 0, again.log
        assert runs.published(small_disk) == store.files


async def test_the_least_recently_used_leaves_and_what_a_living_pod_uses_never(
    tmp_path: Path,
) -> None:
    volume = tmp_path / "volume"
    async with stores.running(files_of(4 * MIB)) as store:

        async def fetch(key: str, pod: str, limit: int = BUDGET) -> runs.Fetching:
            plan = runs.fetch_plan(store.s3_uri, volume, key=key)
            limited = {**store.environment, CACHE_LIMIT_VARIABLE: str(limit)}
            return await runs.fetched(plan, tmp_path / pod, limited, pod=pod)

        assert (await fetch("old", "dead-1")).process.returncode == 0
        assert (await fetch("used", "alive")).process.returncode == 0
        _stopped(volume / "uses" / "dead-1")
        third = await fetch("new", "dead-2")
        assert third.process.returncode == 0, third.log
        assert "evicting weights/old" in third.log
        assert sorted(p.name for p in (volume / "weights").iterdir()) == ["new", "used"]
        assert not any((volume / "trash").iterdir())

        # Both that are left are in use now: nothing leaves, and the sentence says what is short.
        fourth = await fetch("more", "pod-4")
        assert fourth.reason is Reason.CACHE_FULL
        assert "with 8.0 MiB in use" in fourth.message
        assert fourth.message.endswith(
            ": 2.0 MiB are short; raise spec.model.weights.cacheMaxBytes by that"
        )
        assert sorted(p.name for p in (volume / "weights").iterdir()) == ["new", "used"]

        # A crash pins nothing for ever.
        _stopped(volume / "uses" / "dead-2")
        assert (await fetch("more", "pod-4")).process.returncode == 0
        assert sorted(p.name for p in (volume / "weights").iterdir()) == ["more", "used"]

        # Another model of the claim may have a limit of its own, and keeps to that.
        assert (await fetch("other", "pod-5", limit=2 * BUDGET)).process.returncode == 0
        assert sorted(p.name for p in (volume / "weights").iterdir()) == ["more", "other", "used"]


async def test_a_limit_that_is_no_number_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    plan = runs.fetch_plan("s3://weights/tiny", tmp_path / "volume", budget_bytes=BUDGET)
    run = await runs.fetched(plan, tmp_path / "run", {CACHE_LIMIT_VARIABLE: "2Ti"})
    assert run.process.returncode == ExitCode.CONTRACT
    assert run.message == (
        "KINDLING_CACHE_MAX_BYTES is '2Ti', which is no number of bytes; have the operator render"
        " it"
    )
    assert not (tmp_path / "volume").exists()


async def test_a_serving_pod_keeps_its_mark_of_use_alive_and_whole(tmp_path: Path) -> None:
    use = tmp_path / "use"
    use.mkdir()
    plan = pods.plan_for(pods.weights(tmp_path / "model"))
    fetch = Fetch(volume=str(tmp_path), key=runs.KEY, kernels="kernels/tiny-1", shared=True)
    weights = msgspec.structs.replace(plan.weights, use=str(use), fetch=fetch)
    async with pods.running(msgspec.structs.replace(plan, weights=weights), tmp_path):
        await pods.until((use / "beat").exists)
        assert (use / "keys").read_text() == f"weights/{runs.KEY}\nkernels/tiny-1"


async def test_folders_for_kernels_are_made_and_kept_while_in_use(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    plan = runs.fetch_plan("pvc://weights/tiny", volume, key="", kernels="kernels/tiny-1")
    run = await runs.fetched(plan, tmp_path / "a", {})
    assert run.process.returncode == 0, run.log
    assert (volume / "kernels/tiny-1").is_dir()
    assert (volume / "uses/pod-1/keys").read_text() == "kernels/tiny-1"


def _fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\1" * MIB)


def _stopped(use: Path) -> None:
    """As if the pod had died some time ago."""
    long_ago = time.time() - IDLE_SECONDS - 10
    os.utime(use / "beat", (long_ago, long_ago))
