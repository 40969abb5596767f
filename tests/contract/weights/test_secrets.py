"""The hub's token is in no log, status or last word of a download, however it ends; the same is so
for keys of a cloud, which are not used either."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.store import files_of

from kindling_runtime.contract import ExitCode, Reason

MIB = 1 << 20
TOKEN = "hf_aTokenThatNobodyMaySee"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({}, Reason.WEIGHTS_READY),
        ({"token": "another"}, Reason.STORE_REFUSED),
        ({"refuses": 404}, Reason.STORE_REFUSED),
        ({"corrupt": {"model-00000.safetensors"}}, Reason.CHECKSUM_MISMATCH),
        ({"hangs_after": MIB}, Reason.STORE_STALLED),
        ({"xet": True}, Reason.WEIGHTS_READY),
    ],
    ids=["it arrives", "wrong token", "404", "wrong content", "stalled", "Xet of no use"],
)
async def test_the_hubs_token_is_told_to_nobody(
    wrong: dict[str, Any], reason: Reason, tmp_path: Path
) -> None:
    told = []
    async with stores.running(files_of(2 * MIB), **{"token": TOKEN, **wrong}) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume", stall_seconds=3)
        environment = {**store.environment, "HF_TOKEN": TOKEN, "HF_DEBUG": "1"}
        async with runs.fetching(plan, tmp_path / "a", environment) as run:
            ended = asyncio.create_task(run.exit_status())
            while not ended.done():
                status = await run.status()
                told += [msgspec.json.encode(status)] if status is not None else []
                await asyncio.sleep(0.1)
        assert run.reason is reason, run.log
    told += _written(tmp_path)
    assert told
    assert not [text for text in told if TOKEN.encode() in text]


async def test_keys_of_a_cloud_in_the_pod_are_refused_before_a_store_is_asked(
    tmp_path: Path,
) -> None:
    async with stores.running(files_of(MIB)) as store:
        environment = {**store.environment, "AWS_SECRET_ACCESS_KEY": TOKEN}
        del environment["KINDLING_DEVELOPMENT_STORE"]
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", environment)
        assert run.process.returncode == ExitCode.PREFLIGHT
        assert run.reason is Reason.STORE_REFUSED
        assert " is not asked with the static credentials of AWS_ACCESS_KEY_ID; " in run.message
        assert store.asked == []
    assert not [text for text in _written(tmp_path) if TOKEN.encode() in text]


def _written(folder: Path) -> list[bytes]:
    """The log, the last words, and all of the volume but weights."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.read_bytes() for path in files if path.suffix != ".safetensors"]
