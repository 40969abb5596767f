"""`kindling-runtime fetch` as the kubelet runs it: a process, its log, its last words."""

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import aiohttp
import msgspec
from tests.support.engine.plans import launch_plan
from tests.support.engine.pod import PATIENCE, ROOM, RUNTIME, Container
from tests.support.ports import free_ports

from kindling_runtime import contract
from kindling_runtime.contract import Fetch, LaunchPlan, Status, Weights

KEY = "tiny@1"
ENDS_WITHIN = 10 + ROOM
"""A process that starts, asks, fetches a few MiB and ends."""


def fetch_plan(
    uri: str,
    volume: Path,
    *,
    key: str = KEY,
    shared: bool = True,
    stall_seconds: int = 60,
    budget_bytes: int | None = None,
    revision: str = "",
    config_uri: str | None = None,
    kernels: str = "",
) -> LaunchPlan:
    """A plan whose weights come from `uri` into `volume`."""
    fetch = Fetch(
        volume=str(volume),
        key=key,
        revision=revision,
        config_uri=config_uri,
        kernels=kernels,
        shared=shared,
        budget_bytes=budget_bytes,
        stall_seconds=stall_seconds,
    )
    weights = Weights(uri=uri, path=str(volume / "weights" / key), fetch=fetch)
    plan = launch_plan(runtime_port=free_ports(1)[0])
    return msgspec.structs.replace(plan, weights=weights)


@dataclasses.dataclass(slots=True)
class Fetching(Container):
    """A running fetch."""

    async def status(self) -> Status | None:
        """The status document; None while or when nothing answers."""
        url = f"http://127.0.0.1:{self.plan.runtime_port}{contract.STATUS_PATH}"
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                return msgspec.json.decode(await response.read(), type=Status)
        return None

    async def says(self, reason: contract.Reason) -> Status:
        """Wait until the status has `reason`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                status = await self.status()
                if status is not None and status.reason is reason:
                    return status
                assert self.process.returncode is None, self.log
                await asyncio.sleep(0.02)


def _prepared(plan: LaunchPlan, folder: Path) -> BinaryIO:
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_bytes(contract.encode(plan))
    (folder / "termination-log").touch()
    return (folder / "log").open("ab")


@contextlib.asynccontextmanager
async def fetching(
    plan: LaunchPlan,
    folder: Path,
    environment: Mapping[str, str],
    *,
    pod: str = "pod-1",
    arguments: Sequence[str] = (),
) -> AsyncIterator[Fetching]:
    """Run a fetch with its own files in `folder`; it is killed at the end if it still runs."""
    with _prepared(plan, folder) as log:
        process = await asyncio.create_subprocess_exec(
            *(str(RUNTIME), "fetch", "--plan", str(folder / "plan.json")),
            *("--termination-log", str(folder / "termination-log"), *arguments),
            stdout=log,
            stderr=log,
            env={**os.environ, **environment, contract.POD_VARIABLE: pod},
        )
    try:
        yield Fetching(plan, folder, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def fetched(
    plan: LaunchPlan, folder: Path, environment: Mapping[str, str], *, pod: str = "pod-1"
) -> Fetching:
    """Run a fetch to its end."""
    async with fetching(plan, folder, environment, pod=pod) as run:
        await run.exit_status()
    return run


def published(volume: Path) -> dict[str, bytes]:
    """What the cache of a volume has under `KEY`."""
    return content(volume / "weights" / KEY)


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without those of the cache itself."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
