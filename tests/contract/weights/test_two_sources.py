"""Weights whose config and tokenizer are in another repository, and what stays of a branch."""

import json
from pathlib import Path
from typing import Final

import pytest
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.store import files_of

from kindling_runtime.contract import ExitCode, Reason

MIB = 1 << 20
GGUF: Final = {"tiny.gguf": bytes(2 * MIB)}
CONFIG: Final = {
    "config.json": b'{"architectures": ["Tiny"]}',
    "tokenizer.json": b"x" * 100_000,
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
}
WEIGHTS: Final = {"model-00000.safetensors": bytes(MIB), "README.md": b"# Tiny"}
LATER: Final = "9e1c" + "0" * 36


def folder(volume: Path) -> Path:
    return volume / "weights" / runs.KEY


async def test_a_gguf_gets_config_and_tokenizer_of_the_other_repository_and_no_weights(
    tmp_path: Path,
) -> None:
    async with stores.running(GGUF, base=CONFIG | WEIGHTS) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path, config_uri=store.config_uri)
        first = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert first.process.returncode == 0, first.log
        assert runs.content(folder(tmp_path)) == GGUF | CONFIG

        sent = store.sent
        again = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert again.reason is Reason.WEIGHTS_READY
        assert store.sent == sent


async def test_what_the_weights_repository_has_is_its_own(tmp_path: Path) -> None:
    own = GGUF | {"config.json": b'{"own": true}'}
    async with stores.running(own, base=CONFIG) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path, config_uri=store.config_uri)
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert run.process.returncode == 0, run.log
        assert runs.content(folder(tmp_path)) == CONFIG | own


async def test_without_a_config_anywhere_no_weights_are_downloaded(tmp_path: Path) -> None:
    async with stores.running(GGUF, base=WEIGHTS) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path, config_uri=store.config_uri)
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, Reason.STORE_REFUSED)
        assert run.message.startswith("neither of hf://org/tiny and hf://org/base holds config")
        assert store.sent == 0


@pytest.mark.parametrize("name", ["tiny.gguf", "tokenizer.json"])
async def test_a_damaged_file_comes_again_from_where_it_was(name: str, tmp_path: Path) -> None:
    async with stores.running(GGUF, base=CONFIG) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path, config_uri=store.config_uri)
        await runs.fetched(plan, tmp_path / "a", store.environment)
        (folder(tmp_path) / name).unlink()
        run = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert run.process.returncode == 0, run.log
        assert runs.content(folder(tmp_path)) == GGUF | CONFIG


async def test_a_branch_stays_what_it_was_at_its_first_download_and_in_repairs(
    tmp_path: Path,
) -> None:
    async with stores.running(files_of(2 * MIB)) as store:
        before = store.files
        plan = runs.fetch_plan(store.hub_uri, tmp_path)
        await runs.fetched(plan, tmp_path / "a", store.environment)
        store.past[store.commit], store.commit, store.files = before, LATER, files_of(2 * MIB, MIB)

        await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert runs.content(folder(tmp_path)) == before
        (folder(tmp_path) / "model-00000.safetensors").unlink()
        run = await runs.fetched(plan, tmp_path / "c", store.environment, pod="pod-3")
        assert run.process.returncode == 0, run.log
        assert runs.content(folder(tmp_path)) == before
        manifest = json.loads((folder(tmp_path) / ".kindling.json").read_text())
        assert manifest["resolved"] == stores.COMMIT


async def test_a_damaged_file_that_the_store_no_longer_has_is_told(tmp_path: Path) -> None:
    async with stores.running(files_of(MIB)) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path)
        await runs.fetched(plan, tmp_path / "a", store.environment)
        name = "model-00000.safetensors"
        (folder(tmp_path) / name).unlink()
        del store.files[name]
        run = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert run.reason is Reason.STORE_REFUSED
        assert run.message.startswith(f"{name} is damaged in the cache and {store.s3_uri} holds it")
