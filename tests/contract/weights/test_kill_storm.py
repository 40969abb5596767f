"""Many fetches of one key, killed and stopped at random: whatever is published is whole."""

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.store import files_of

from kindling_runtime.contract import POD_VARIABLE, Reason

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]

MIB = 1 << 20
SECONDS = float(os.environ.get("KINDLING_STORM_SECONDS", "240"))
FETCHES = int(os.environ.get("KINDLING_STORM_FETCHES", "10"))
LEASE_SECONDS = "2"
"""Short, so that who is stopped loses its lease and comes back beside a second owner."""


class Storm:
    """What one round of fetches does to one volume."""

    def __init__(self, folder: Path, store: stores.Store, chance: random.Random) -> None:
        self.volume = folder / "volume"
        self.ended: list[tuple[int, str]] = []
        self._folder = folder
        self._store = store
        self._chance = chance

    async def one(self, number: int, *, until: float) -> None:
        """A pod whose container is killed and started again."""
        while time.monotonic() < until:
            plan = runs.fetch_plan(self._store.hub_uri, self.volume)
            async with runs.fetching(
                plan,
                self._folder / f"pod-{number}",
                self._store.environment,
                pod=f"pod-{number}",
                arguments=("--lease-seconds", LEASE_SECONDS),
            ) as run:
                await self._harm(run.process)
                status = await asyncio.wait_for(run.process.wait(), 120)
                # A free port of this test is somebody else's by now, sometimes.
                if status != -signal.SIGKILL and run.reason is not Reason.PREFLIGHT_FAILED:
                    self.ended.append((status, run.message))

    async def _harm(self, process: asyncio.subprocess.Process) -> None:
        await asyncio.sleep(self._chance.uniform(1.5, 12))
        if process.returncode is not None or self._chance.random() < 0.2:
            return
        if self._chance.random() < 0.4:
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(self._chance.uniform(1, 6))
            process.send_signal(signal.SIGCONT)
            return
        process.kill()


async def test_whatever_is_published_is_whole_whoever_was_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("KINDLING_SOAK_SEED", str(random.randrange(10_000))))
    chance = random.Random(seed)
    end, rounds, ended = time.monotonic() + SECONDS, 0, []
    async with stores.running(
        files_of(3 * MIB, 9 * MIB, 0, 1), failures=2, bytes_per_second=3 * MIB
    ) as store:
        while time.monotonic() < end:
            rounds += 1
            (folder := tmp_path / str(rounds)).mkdir()
            storm = Storm(folder, store, chance)
            until = min(end, time.monotonic() + 40)
            await asyncio.gather(*(storm.one(each, until=until) for each in range(FETCHES)))
            # Nobody is harmed any more: the next one finds it, or brings it.
            plan = runs.fetch_plan(store.hub_uri, storm.volume)
            run = await runs.fetched(
                plan, folder / "last", {**store.environment, POD_VARIABLE: "last"}, pod="pod-0"
            )
            assert run.process.returncode == 0, (seed, run.log)
            assert runs.published(storm.volume) == store.files
            assert not any((storm.volume / "partial").iterdir())
            ended += storm.ended
    wrong = [each for each in ended if each[0] != 0]
    assert ended
    assert not wrong, (seed, rounds, wrong)
