"""Connections that ask nothing, and paths of a plan that lead elsewhere."""

import asyncio
import contextlib
import logging
import socket
import types
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, web
from tests.support.engine.plans import launch_plan
from tests.support.engine.pod import until
from tests.support.ports import free_ports

from kindling_runtime import contract, guests, http
from kindling_runtime.contract import Fetch, Requires
from kindling_runtime.crowds import crowding, unwanted

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


CROWDS = {
    "nobody": ({}, 1, ""),
    "none too many": ({"a": "x", "b": "y"}, 0, ""),
    "the newest of the address that has the most": ({"a": "x", "b": "y", "c": "y"}, 1, "c"),
    "until two have as many": ({"a": "x", "b": "y", "c": "y", "d": "y"}, 2, "dc"),
    "whoever came alone stays longest": ({"k": "n", "a": "x", "b": "x", "c": "x"}, 2, "cb"),
    "no more than there are": ({"a": "x"}, 5, "a"),
}


@pytest.mark.parametrize(("addresses", "over", "ends"), CROWDS.values(), ids=CROWDS)
def test_who_of_those_that_are_answered_has_to_go(
    addresses: dict[str, str], over: int, ends: str
) -> None:
    assert "".join(crowding(addresses, over=over)) == ends


async def test_a_crowd_whose_questions_take_long_makes_room_and_spares_who_came_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of a start do, which wait for its end, and those whose body never ends."""
    monkeypatch.setattr(guests, "_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(guests, "MOST", 20)
    port = free_ports(1)[0]
    asked, over = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        asked.set()
        await over.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/wait", wait)
    async with http.serving(app, host="127.0.0.1", port=port):
        alone = await _asks_and_waits(port, "127.0.0.8")
        await asked.wait()
        crowd = [await _asks_and_waits(port, "127.0.0.7") for _ in range(40)]
        await until(lambda: sum(reader.at_eof() for reader, _ in crowd) >= 21)
        over.set()
        async with asyncio.timeout(30):
            assert (await alone[0].readline()).split()[1] == b"200"
        for _, writer in (*crowd, alone):
            writer.close()


async def _asks_and_waits(
    port: int, address: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    return reader, writer


async def test_who_does_not_read_its_answers_does_not_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What only is to be closed stays open until it is read, which may be never."""
    monkeypatch.setattr(guests, "_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(guests, "_IDLE_SWEEPS", 2)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bytes(16 << 20))

    port = free_ports(1)[0]
    app = web.Application()
    app.router.add_get("/", answer)
    before = _sockets()
    async with http.serving(app, host="127.0.0.1", port=port):
        with socket.create_connection(("127.0.0.1", port)) as deaf:
            deaf.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            # The one that listens and the client's stay.
            await until(lambda: _sockets() == before + 3)
            await until(lambda: _sockets() == before + 2)


def _sockets() -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.readlink()).startswith("socket:")
    return found


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
