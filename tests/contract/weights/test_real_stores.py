"""Downloads from real object stores: S3, GCS and Azure, each by the identity of its cloud.

One suite for all; what a store cannot show is left out by name. `tests/support/stores/real.py`
says which programs they are.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import obstore
import pytest
from tests.support.stores import real
from tests.support.stores.real import RealStore
from tests.support.weights import fetching as runs
from tests.support.weights import resuming
from tests.support.weights.fetching import published
from tests.support.weights.store import files_of
from tests.support.weights.way import Way, reached

from kindling_runtime.contract import ExitCode, Reason
from kindling_runtime.weights import manifest
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.manifest import Basis

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60, func_only=True)]

MIB = 1 << 20
PREFIX = "models/tiny"
AWKWARD = {
    "a b+c é %2B.json": b"1",
    "x#y?z&=;.json": b"22",
    "~!'()*,@.txt": b"333",
    "empty.txt": b"",
    "deep/er/est/file.bin": b"4444",
}


@pytest.fixture(params=real.KINDS)
def store(request: pytest.FixtureRequest, store_of: Callable[[str], RealStore]) -> RealStore:
    return store_of(request.param)


@pytest.fixture
async def way(store: RealStore, tmp_path: Path) -> AsyncIterator[Way]:
    async with reached(store, tmp_path) as found:
        yield found


async def test_a_model_arrives_whole_whatever_its_files_are_called(
    way: Way, tmp_path: Path
) -> None:
    files = {**files_of(3 * MIB, 70_000), **AWKWARD}
    await way.fill(files)
    # A neighbour whose name begins alike, and what consoles keep for folders.
    await way.store.put(way.bucket, "models/tiny-2/config.json", b"{}")
    await way.store.put(way.bucket, "models/tinyconfig.json", b"{}")
    for folder in ("models/", f"{PREFIX}/", f"{PREFIX}/sub/", f"{PREFIX}/deep/"):
        if way.store.keeps_folders:
            await way.store.put(way.bucket, folder, b"")

    volume = tmp_path / "volume"
    plan = runs.fetch_plan(way.uri, volume)
    first = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert (first.process.returncode, first.reason) == (0, Reason.WEIGHTS_READY), first.log
    assert published(volume) == files
    kept = manifest.read(volume / "weights" / runs.KEY)
    assert kept is not None
    assert {each.basis for each in kept.files} == {way.store.basis}
    assert all(each.etag for each in kept.files)

    before = way.relay.connections
    second = await runs.fetched(plan, tmp_path / "b", way.environment, pod="pod-2")
    assert second.message == "3.1 MiB are in the cache"
    assert way.relay.connections == before


async def test_a_fetch_that_is_killed_goes_on_where_it_was(way: Way, tmp_path: Path) -> None:
    files, volume = files_of(32 * MIB), tmp_path / "volume"
    await way.fill(files)
    plan = runs.fetch_plan(way.uri, volume)
    for _ in range(2):
        way.relay.hang_after(resuming.MORE)
        async with runs.fetching(plan, tmp_path / "a", way.environment) as run:
            await way.stuck(run)
            await resuming.until_noted(volume, run, least=2)
            run.process.kill()
        way.relay.cut()
    kept, before = resuming.noted(volume), way.relay.sent
    way.relay.release()
    last = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert last.process.returncode == 0, last.log
    assert published(volume) == files
    # What is noted does not come again; TLS, headers and listings add less than a part.
    assert way.relay.sent - before <= (32 - len(kept) + 1) * MIB


async def test_an_object_that_is_replaced_under_the_download_comes_as_it_is_now(
    way: Way, tmp_path: Path
) -> None:
    files = files_of(16 * MIB)
    await way.fill(files)
    plan = runs.fetch_plan(way.uri, tmp_path / "volume")
    way.relay.hang_after(4 * MIB)
    async with runs.fetching(plan, tmp_path / "a", way.environment) as run:
        await way.stuck(run)
        name = "model-00000.safetensors"
        files[name] = os.urandom(15 * MIB)
        await way.store.put(way.bucket, f"{PREFIX}/{name}", files[name])
        way.relay.release()
        assert await run.exit_status() == 0, run.log
    assert published(tmp_path / "volume") == files


async def test_an_object_that_was_uploaded_in_parts_arrives_without_a_checksum(
    way: Way, tmp_path: Path
) -> None:
    if not way.store.takes_parts:
        pytest.skip("its API for parts is another one")
    parts = [os.urandom(5 * MIB), os.urandom(MIB)]
    await way.store.make(way.bucket)
    await way.store.put_in_parts(way.bucket, f"{PREFIX}/model.safetensors", parts)
    plan = runs.fetch_plan(way.uri, tmp_path / "volume")
    run = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert run.process.returncode == 0, run.log
    assert published(tmp_path / "volume") == {"model.safetensors": b"".join(parts)}
    kept = manifest.read(tmp_path / "volume/weights" / runs.KEY)
    assert kept is not None
    assert [each.basis for each in kept.files] == [Basis.LENGTH]
    if way.store.basis is Basis.STORE:
        assert kept.files[0].etag.strip('"').endswith("-2")


async def test_a_listing_of_several_pages_is_whole(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not way.store.has_pages:
        pytest.skip("its listing has one page")
    names = {f"part-{number:04}" for number in range(1005)}
    await way.store.make(way.bucket)
    asked = way.client(monkeypatch, way.uri)
    client = asked._access.store
    for some in _groups(sorted(names), 50):
        # By its own client, which keeps its connections.
        await asyncio.gather(
            *(obstore.put_async(client, f"{PREFIX}/{name}", b"x") for name in some)
        )
    listing = await asked.listing()
    assert {file.path for file in listing.files} == names


async def test_a_prefix_without_objects_and_a_bucket_without_prefix(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await way.fill({"config.json": b"{}"})
    plan = runs.fetch_plan(way.store.uri(way.bucket, "models/tin"), tmp_path / "volume")
    run = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT
    assert run.reason is Reason.STORE_REFUSED
    assert " holds no file; correct spec.model.weights.uri" in run.message

    whole = way.client(monkeypatch, way.store.uri(way.bucket, ""))
    assert [file.path for file in (await whole.listing()).files] == [f"{PREFIX}/config.json"]


async def test_a_bucket_that_does_not_exist_is_named(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not way.store.misses_buckets:
        pytest.skip("it answers HTTP 500")
    uri = way.store.uri("weights-nonesuch", PREFIX)
    with pytest.raises(FetchError) as refused:
        await way.client(monkeypatch, uri).listing()
    assert refused.value.reason is Reason.STORE_REFUSED
    assert str(refused.value).startswith(f"{uri} does not exist (")
    assert "NotFound: " in str(refused.value) or "NoSuchBucket: " in str(refused.value)


async def test_who_may_not_read_is_told_so_by_the_stores_own_code(way: Way, tmp_path: Path) -> None:
    await way.fill(files_of(MIB))
    if way.store.knows_rights:
        way.tokens.reads = False
    else:
        way.tokens.good_for = -10
    plan = runs.fetch_plan(way.uri, tmp_path / "volume")
    run = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT
    assert run.reason is Reason.STORE_REFUSED
    assert run.message.startswith(f"{way.uri} refuses the pod's identity")
    code = "AccessDenied" if way.store.knows_rights else "AuthenticationFailed"
    assert f"({code}: " in run.message


def _groups(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))
