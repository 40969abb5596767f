"""Connections that ask nothing, and paths of a plan that lead elsewhere."""

import asyncio
import logging
import types

import msgspec
import pytest
from aiohttp import ClientSession, web
from tests.support.engine.plans import launch_plan
from tests.support.engine.pod import until
from tests.support.ports import free_ports

from kindling_runtime import contract, guests, http
from kindling_runtime.contract import Fetch, Requires
from kindling_runtime.crowds import unwanted

IDLE = {
    "nobody": ({}, ""),
    "few": ({"a": 0, "b": 5}, ""),
    "one that stays too long": ({"a": 0, "b": 11, "c": 10}, "b"),
    "too many: the longest idle": ({"a": 0, "b": 2, "c": 3, "d": 1}, "c"),
    "never one that is answered": ({"a": 0, "b": 0, "c": 0, "d": 0}, ""),
}


@pytest.mark.parametrize(("idle", "ends"), IDLE.values(), ids=IDLE)
def test_who_has_to_go(idle: dict[str, int], ends: str) -> None:
    assert "".join(unwanted(idle, most=3, longest=10)) == ends


async def test_a_crowd_that_asks_nothing_makes_room_for_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guests, "_SWEEP_SECONDS", 0.05)
    port = free_ports(1)[0]
    over = asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/wait", wait)
    async with http.serving(app, host="127.0.0.1", port=port), ClientSession() as session:
        question = asyncio.create_task(session.get(f"http://127.0.0.1:{port}/wait"))
        await asyncio.sleep(0.5)
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(guests.MOST + 50)]
        for _, writer in crowd[::2]:
            writer.write(b"GET /wait HTTP/1.1\r\nA: ")
        await until(lambda: sum(reader.at_eof() for reader, _ in crowd) >= 50)
        over.set()
        async with asyncio.timeout(30):
            assert (await question).status == 200
        for _, writer in crowd:
            writer.close()


async def test_one_that_asks_between_two_sweeps_is_not_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    due, begun = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def sleep(_: float) -> None:
        begun.release()
        await due.acquire()

    monkeypatch.setattr("kindling_runtime.guests.asyncio", types.SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(guests, "_IDLE_SWEEPS", 0)

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    port = free_ports(1)[0]
    app = web.Application()
    app.router.add_get("/", answer)
    async with http.serving(app, host="127.0.0.1", port=port), asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await begun.acquire()
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n")
            due.release()
            await begun.acquire()
        due.release()
        assert await reader.read() == b"", "nothing was asked since the last sweep"
        writer.close()


async def test_what_is_no_http_leaves_no_trace_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_ports(1)[0]
    with caplog.at_level(logging.DEBUG):
        async with http.serving(web.Application(), host="127.0.0.1", port=port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01 no HTTP\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"400"
            writer.close()
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("path", ["..", ".", "../x", "a/../x", "a/..", "/etc", "a\n/../b", "./a"])
def test_no_plan_leads_out_of_its_folders(path: str) -> None:
    plan = launch_plan()

    def planned(requires: Requires, fetch: Fetch | None) -> contract.LaunchPlan:
        weights = msgspec.structs.replace(plan.weights, fetch=fetch)
        return msgspec.structs.replace(plan, requires=requires, weights=weights)

    for wrong in (
        planned(Requires(files=(path,)), None),
        planned(Requires(), Fetch(volume="/cache", kernels=path)),
        planned(Requires(), Fetch(volume="/cache", key=path)),
    ):
        with pytest.raises(contract.ContractError, match="the launch plan is wrong at"):
            contract.encode(wrong)
    contract.encode(
        planned(Requires(files=("a/.b/c..d",)), Fetch(volume="/c", kernels="kernels/x-1"))
    )
