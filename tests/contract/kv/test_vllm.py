"""The tier under the manager of vLLM: of 0.33.0, which is served with, and of 0.32 for CPU."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.images.built import build, container, inside
from tests.support.kv import vllm33
from tests.support.kv.backends import reached
from tests.support.onenode import ROOT
from tests.support.stores.real import RealStore

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

TOKENS_OF_A_CHUNK = 64
GIVEN = ("AWS_", "SSL_CERT_FILE", "NO_PROXY", "no_proxy")


@pytest.mark.parametrize("version", ["0.33.0", "0.32.0"])
async def test_stories_under_vllms_own_manager(
    version: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store_of: Callable[[str], RealStore],
) -> None:
    store = store_of("s3")
    async with reached(store, tmp_path, monkeypatch) as (uri, _):
        given = {name: value for name, value in os.environ.items() if name.startswith(GIVEN)}
        told = json.loads(await asyncio.to_thread(_run, version, uri, given, store, tmp_path))

    assert told["version"].startswith(version)
    assert told["packed"] == {
        "objects": 3,
        "found": 40,
        "right": True,
        "shared": 16,  # of 20; the object in which they part is the other prompt's
        "hit_tokens": 40 * TOKENS_OF_A_CHUNK,
        "loaded_bytes": 40 * 256 * 1024,
        "declared": [],
        "cache": "TiersInUse",
    }
    assert (told["alone"]["objects"], told["alone"]["found"]) == (6, 6)
    assert (told["alone"]["right"], told["alone"]["shared"]) == (True, 3)
    assert told["second"] == {"once": 0, "twice": 40, "found": 40, "right": True}
    if version == "0.33.0":
        assert told["windows"] == {"full": 40, "tail": 2}
    for each in told["any"]:
        assert (each["wrong"], each["left"]) == (0, 0)
        assert each["read"] > 100
    refused = told["refused"]
    assert (refused["here"], refused["right"], refused["missing"]) == (10, True, 0)
    reason, message = refused["cache"]
    assert reason == "StoreRefuses"
    assert message.startswith(f"the pod has no identity for {uri}/refused: none of AWS_WEB_IDENT")


def _run(version: str, uri: str, given: dict[str, str], store: RealStore, folder: Path) -> str:
    """The stories in the CPU image; vLLM 0.33 lies over its own vLLM."""
    path = "/repo:/vllm" if version == "0.33.0" else "/repo"
    ours = {ROOT / "tests": "/repo/tests", ROOT / "runtime": "/repo/runtime"}
    # The image's user reads the test's token and certificates where the environment says.
    seen = {folder: str(folder), store.tls.authority.parent: str(store.tls.authority.parent)}
    for shown in (*seen, *folder.iterdir(), store.tls.authority):
        shown.chmod(0o755)
    settings = {
        **given,
        "HOME": "/tmp",
        "PYTHONPATH": f"{path}:/repo/runtime",
        "PYTHONDONTWRITEBYTECODE": "1",
        "VLLM_TARGET_DEVICE": "cpu",
    }
    with container(build("runtime-cpu")) as name:
        said = inside(
            name,
            *("env", *(f"{each}={value}" for each, value in settings.items())),
            *("python", "-m", "tests.contract.kv.in_vllm", uri),
            volumes={**ours, **seen, vllm33.wheel(): "/vllm"},
            seconds=900,
        )
    return said.splitlines()[-1]
