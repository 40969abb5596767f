"""Reading the runtimes of pods: real HTTP to servers of the test's own, some of which misbehave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from tests.support.answering import answering
from tests.support.ports import free_ports

from kindling_operator.model.reports import Report
from kindling_operator.observe import runtimes
from kindling_operator.observe.runtimes import parse, read
from kindling_runtime.contract import STATUS_PATH, EngineFacts, GroupBackend, MemoryUse

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

FACTS = EngineFacts(
    kv_blocks=128,
    kv_tokens=2048,
    cache_dtype="auto",
    attention_backends=(GroupBackend(group="full", backend="FLASH_ATTN"),),
    memory=(MemoryUse(item="Activations", bytes=7),),
)
TOLD = Report(
    kv_blocks=128,
    kv_tokens=2048,
    cache_dtype="auto",
    backends=(("full", "FLASH_ATTN"),),
    memory=(("Activations", 7),),
)


@asynccontextmanager
async def runtime(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get(STATUS_PATH, handler)
    async with answering(app) as url:
        yield url


async def serves(_: web.Request) -> web.Response:
    body = {"phase": "Ready", "facts": msgspec.to_builtins(FACTS), "new": 1}
    return web.json_response(body)


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response()


async def fails(_: web.Request) -> web.Response:
    return web.Response(status=500, text="{}")


async def floods(_: web.Request) -> web.Response:
    return web.Response(body=b'{"phase": "' + b"x" * 1_000_000 + b'"}')


async def test_who_does_not_answer_well_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "READ_SECONDS", 0.5)
    async with (
        runtime(serves) as good,
        runtime(hangs) as slow,
        runtime(fails) as bad,
        runtime(floods) as large,
    ):
        [closed] = free_ports(1)
        urls = {"good": good, "slow": slow, "bad": bad, "large": large}

        found = await read({**urls, "closed": f"http://127.0.0.1:{closed}"})

    assert found == {"good": TOLD}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"facts": 3}', b'{"phase": 7}', b"\xff"])
def test_what_is_no_status_says_nothing(body: bytes) -> None:
    assert parse(body) is None


def test_a_download_tells_in_one_printable_line() -> None:
    said = {"phase": "Downloading", "message": "10 of\n90\x1b[31m GiB" + "x" * 500}

    found = parse(msgspec.json.encode(said))

    assert found is not None
    assert found.progress.startswith("10 of90[31m GiB")
    assert len(found.progress) == 200


def test_a_loading_engine_is_told_by_what_it_has_read() -> None:
    said = {"phase": "Loading", "message": "loads", "engine": {"readBytes": 44 << 30}}

    assert parse(msgspec.json.encode(said)) == Report(progress="has read 44.0 GiB")
    assert parse(msgspec.json.encode(said | {"phase": "Ready"})) == Report()


TROUBLES = [
    (
        {"phase": "Ready", "evidence": {"misses": 1, "lastMiss": "it did not answer"}},
        "NoToken: the engine showed no token: it did not answer",
    ),
    ({"phase": "Ready", "evidence": {"misses": 0, "lastMiss": "once"}}, ""),
    ({"phase": "Loading", "evidence": {"misses": 0, "lastMiss": "it loads"}}, ""),
    (
        {"phase": "Stalled", "reason": "NoToken", "message": "no token in 2 looks"},
        "NoToken: no token in 2 looks",
    ),
    (
        {"phase": "Failed", "reason": "Wedged", "message": "the engine is wedged"},
        "Wedged: the engine is wedged",
    ),
    (
        {"phase": "Downloading", "download": {"problem": "no byte has come"}},
        "StoreStalled: no byte has come",
    ),
    ({"phase": "Downloading", "download": {"bytes": 1, "total": 2}}, ""),
]


@pytest.mark.parametrize(("said", "trouble"), TROUBLES)
def test_what_runs_and_does_not_move_is_told(said: dict[str, object], trouble: str) -> None:
    found = parse(msgspec.json.encode(said))

    assert found is not None
    assert found.trouble == trouble
