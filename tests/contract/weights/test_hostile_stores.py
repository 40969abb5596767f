"""A store that means harm: whatever it lists or answers, a fetch ends in time, in one sentence that
names it, and writes nowhere but into its folder."""

import asyncio
import gzip
import re
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from tests.support.weights import fetching as runs
from tests.support.weights import hostile
from tests.support.weights.store import COMMIT, listed

from kindling_runtime.contract import ExitCode, Reason
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.parts import RemoteFile
from kindling_runtime.weights.store import MOST_FILES, Catch

HARM: dict[str, tuple[list[dict[str, object]], Reason, str]] = {
    "nul": ([listed("a\0b")], Reason.STORE_REFUSED, "which no folder can hold"),
    "surrogate": ([listed("a\ud800")], Reason.STORE_REFUSED, "which no folder can hold"),
    "negative": (
        [listed("a", size=-5)],
        Reason.STORE_REFUSED,
        "holds a of -5 bytes, which no folder can hold",
    ),
    "exbibyte": (
        [listed("a", size=1 << 60)],
        Reason.CACHE_FULL,
        "1048576.0 TiB of weights",
    ),
    "sizes-lie": ([listed("a", size=1)], Reason.STORE_STALLED, "more bytes came than"),
}


@pytest.mark.parametrize("name", HARM)
async def test_a_listing_that_means_harm_is_refused_by_name(name: str, tmp_path: Path) -> None:
    entries, reason, words = HARM[name]
    async with hostile.running(entries) as hub:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=4)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, reason), run.log
    assert words in run.message
    assert run.message.isprintable()


@pytest.mark.parametrize("uri", [hostile.URI, hostile.BUCKET])
async def test_a_listing_without_end_is_refused_at_a_bound(uri: str, tmp_path: Path) -> None:
    async with hostile.running([], page=1000) as hub:
        plan = runs.fetch_plan(uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, Reason.STORE_REFUSED)
    assert run.message == (
        f"{uri} lists more than {MOST_FILES} files; name the folder of the one model in "
        "spec.model.weights.uri"
    )
    assert len(hub.seen) < 2 * MOST_FILES / 1000


@pytest.mark.parametrize("uri", [hostile.URI, hostile.BUCKET])
async def test_a_listing_that_goes_on_until_time_is_over_is_told_as_that(
    uri: str, tmp_path: Path
) -> None:
    async with hostile.running([], page=1000, page_seconds=1) as hub:
        plan = runs.fetch_plan(uri, tmp_path / "volume", stall_seconds=6)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, Reason.STORE_STALLED)
    assert re.search(r"\(it has listed [1-9]\d* files by now, and does not end\)", run.message)


def test_names_are_bounded_together_and_not_by_their_number_alone() -> None:
    catch = Catch(hostile.URI)
    half = "x" * (8 << 20)
    catch.add(RemoteFile(half, 1))
    catch.add(RemoteFile(half, 1))
    with pytest.raises(FetchError, match="hf://org/tiny lists more than 16 MiB of names; name"):
        catch.add(RemoteFile("x", 1))


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://["])
async def test_a_redirect_that_leads_nowhere_is_told_and_ends(
    location: str, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.Response:
        headers = {"X-Repo-Commit": COMMIT, "Location": location}
        return web.Response(status=302, headers=headers)

    async with hostile.running([listed("config.json")], answer) as hub:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=4)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT, run.log
    assert run.reason is Reason.STORE_STALLED
    assert "root:" not in run.log


async def test_a_hub_that_redirects_a_read_elsewhere_does_not_send_its_token_there(
    tmp_path: Path,
) -> None:
    async with hostile.running([]) as stranger:

        async def answer(request: web.Request) -> web.Response:
            headers = {"X-Repo-Commit": COMMIT}
            if request.method == "HEAD":
                return web.Response(headers=headers)
            there = stranger.url.replace("127.0.0.1", "localhost")
            return web.Response(status=307, headers=headers | {"Location": f"{there}/config.json"})

        async with hostile.running([listed("config.json")], answer) as hub:
            plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=20)
            run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert run.process.returncode == ExitCode.CLEAN, run.log
    assert [told for _, _, told in stranger.seen] == [""]
    assert "hf_secret" not in run.log


@pytest.mark.parametrize(
    "headers",
    [
        {"RateLimit": f'"a";r={"0" * 5000};t=5'},
        {"Retry-After": "9" * 3000},
        {"Retry-After": "Fri, 31 Dec 9999 23:59:59 -2359"},
    ],
    ids=("digits", "long", "end-of-time"),
)
async def test_a_wait_that_no_one_can_wait_for_is_bounded(
    headers: dict[str, str], tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"X-Repo-Commit": COMMIT, **headers})

    async with hostile.running([listed("config.json")], answer) as hub:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=3)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT, run.log
    assert run.reason is Reason.STORE_STALLED
    assert "HTTP 429" in run.message


async def test_a_body_without_end_is_not_taken(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=206, headers={"X-Repo-Commit": COMMIT})
        response.enable_chunked_encoding()
        await response.prepare(request)
        while request.method != "HEAD" and request.transport is not None:
            await response.write(b"x" * 65536)
            await asyncio.sleep(0)
        return response

    async with hostile.running([listed("config.json")], answer) as hub:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=4)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT, run.log
    assert run.reason in {Reason.STORE_STALLED, Reason.CHECKSUM_MISMATCH}
    assert sum(f.stat().st_size for f in (tmp_path / "volume").rglob("config.json")) <= 2


async def test_a_uri_without_a_repository_is_refused_by_name(tmp_path: Path) -> None:
    plan = runs.fetch_plan("hf://gpt2", tmp_path / "volume")
    run = await runs.fetched(plan, tmp_path / "a", {})
    assert run.process.returncode == ExitCode.PREFLIGHT, run.log
    assert run.message == (
        "hf://gpt2 names no repository of the hub; write hf://ORG/NAME in spec.model.weights.uri"
    )


async def test_a_port_that_is_taken_is_not_blamed_on_the_volume(tmp_path: Path) -> None:
    async with hostile.running([]) as stranger:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume")
        port = int(stranger.url.rpartition(":")[2])
        run = await runs.fetched(
            msgspec.structs.replace(plan, runtime_port=port), tmp_path / "a", {}
        )
    assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, Reason.PREFLIGHT_FAILED)
    assert run.message.startswith(f"port {port} of the runtime cannot be bound (")


JSON = b'{"architectures": ["Tiny"]}'


async def test_a_store_that_compresses_what_it_may_is_asked_for_the_bytes_as_they_are(
    tmp_path: Path,
) -> None:
    """As content networks and proxies do with JSON for whoever says that it takes gzip."""

    async def answer(request: web.Request) -> web.Response:
        takes = "gzip" in request.headers.get("Accept-Encoding", "")
        encoding = {"Content-Encoding": "gzip"} if takes and request.method == "GET" else {}
        headers = {"X-Repo-Commit": COMMIT} | encoding
        return web.Response(body=gzip.compress(JSON) if encoding else JSON, headers=headers)

    async with hostile.running([listed("config.json", JSON)], answer) as hub:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=4)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert run.process.returncode == ExitCode.CLEAN, run.message
    assert (Path(plan.weights.path) / "config.json").read_bytes() == JSON


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (200, {"Content-Encoding": "br"}, "127.0.0.1 sends br though asked for the bytes as they"),
        (
            206,
            {"Content-Range": "bytes 1-27/28"},
            "127.0.0.1 sends bytes 1-27/28 though asked for bytes 0-26",
        ),
    ],
    ids=["encoded", "another range"],
)
async def test_a_store_that_sends_other_bytes_than_asked_for_is_told_and_the_file_not_blamed(
    status: int, headers: dict[str, str], words: str, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            body=JSON[::-1], status=status, headers={"X-Repo-Commit": COMMIT} | headers
        )

    async with hostile.running([listed("config.json", JSON)], answer) as hub:
        plan = runs.fetch_plan(hostile.URI, tmp_path / "volume", stall_seconds=4)
        run = await runs.fetched(plan, tmp_path / "a", hub.environment)
    assert (run.process.returncode, run.reason) == (ExitCode.PREFLIGHT, Reason.STORE_STALLED)
    assert words in run.message
