"""A store that answers 429: asked again when it says, kept within a bound, and by one pod alone."""

import time
from pathlib import Path

import pytest
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.fetching import published
from tests.support.weights.store import files_of

from kindling_runtime.contract import ExitCode, Reason

MIB = 1 << 20
WAIT = 3
QUOTA = {"RateLimit": f'"resolvers";r=0;t={WAIT}', "RateLimit-Policy": '"resolvers";q=500;w=300'}


async def test_a_hub_that_limits_is_asked_again_when_it_says_and_not_before(tmp_path: Path) -> None:
    async with stores.running(files_of(MIB), limited=2, limits={"Retry-After": str(WAIT)}) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", store.environment)

        assert run.process.returncode == 0, run.log
        first, second, third = store.asked_at[:3]
        assert min(second - first, third - second) >= WAIT
        assert published(tmp_path / "volume") == store.files


@pytest.mark.parametrize("limits", [{"Retry-After": str(WAIT)}, QUOTA], ids=("header", "quota"))
async def test_ranges_that_are_limited_are_asked_for_again_when_the_hub_says(
    limits: dict[str, str], tmp_path: Path
) -> None:
    async with stores.running(
        files_of(2 * MIB), limited=4, limits=limits, reads_only=True
    ) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        begun = time.monotonic()
        run = await runs.fetched(plan, tmp_path / "a", store.environment)

        assert run.process.returncode == 0, run.log
        assert time.monotonic() - begun >= WAIT
        assert published(tmp_path / "volume") == store.files
        assert store.sent == store.size


async def test_a_bucket_that_limits_is_asked_again_with_growing_waits(tmp_path: Path) -> None:
    async with stores.running(files_of(MIB), limited=3) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", store.environment)

        assert run.process.returncode == 0, run.log
        assert published(tmp_path / "volume") == store.files


@pytest.mark.parametrize("reads_only", [False, True])
async def test_a_wait_that_is_too_long_ends_after_twice_the_bound(
    reads_only: bool, tmp_path: Path
) -> None:
    limits = {"Retry-After": "600"}
    async with stores.running(
        files_of(MIB), limited=1000, limits=limits, reads_only=reads_only
    ) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume", stall_seconds=2)
        begun = time.monotonic()
        run = await runs.fetched(plan, tmp_path / "a", store.environment)

        assert run.process.returncode == ExitCode.PREFLIGHT
        assert run.reason is Reason.STORE_STALLED
        assert "to be asked again after 600 s" in run.message
        assert "HTTP 429 from " in run.message
        # Without its wish it would have been given up after half of that.
        assert time.monotonic() - begun >= 4
