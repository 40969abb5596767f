"""Strangers at the ports of a pod: that of its group, and the runtime's own."""

import asyncio
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind
from tests.support.ports import free_ports

from kindling_runtime import contract
from kindling_runtime.contract import ExitCode, Group, Phase, Rank, Reason
from kindling_runtime.roster import GROUP_PATH

RANKS: Final = (Rank(serves=True), Rank(serves=False))
WORDS: Final = {
    "garbage": os.urandom(4000),
    "no UTF-8": b'{"rank":1,"incarnation":"\xff","waiting":true}',
    "nested": b'{"a":' * 100_000,
    "long": b'{"rank":1,"incarnation":"' + b"a" * (3 << 20) + b'","waiting":true}',
    "no rank": b'{"rank":-1,"incarnation":"a","waiting":true}',
    "another rank": b'{"rank":7,"incarnation":"a","waiting":false}',
    "the leader's rank": b'{"rank":0,"incarnation":"a","waiting":false}',
    "a number without end": b'{"rank":' + b"9" * 5000 + b',"incarnation":"a","waiting":true}',
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_words_of_strangers_do_not_move_a_group(model: Path, tmp_path: Path) -> None:
    [port] = free_ports(1)
    plans = [
        msgspec.structs.replace(pods.plan_for(model), group=Group(ranks=RANKS, port=port))
        for _ in RANKS
    ]
    async with contextlib.AsyncExitStack() as stack:
        group = []
        for rank, plan in enumerate(plans):
            env = {contract.RANK_VARIABLE: str(rank), contract.LEADER_VARIABLE: "127.0.0.1"}
            (folder := tmp_path / str(rank)).mkdir()
            group.append(await stack.enter_async_context(pods.running(plan, folder, env=env)))
        for pod in group:
            await pod.reach(Phase.READY)
        for words in WORDS.values():
            async with group[0].session.post(
                f"http://127.0.0.1:{port}{GROUP_PATH}", data=io.BytesIO(words)
            ) as answer:
                assert answer.status < 500
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in crowd:
            writer.write(b"POST /group HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n")
        await asyncio.sleep(5)
        for pod in group:
            assert (await pod.status()).phase is Phase.READY, pod.log
            assert "Traceback" not in pod.log
        for _, writer in crowd:
            writer.close()


async def test_a_port_of_the_group_that_is_taken_is_named(model: Path, tmp_path: Path) -> None:
    [port] = free_ports(1)
    plan = msgspec.structs.replace(pods.plan_for(model), group=Group(ranks=RANKS, port=port))
    env = {contract.RANK_VARIABLE: "0", contract.LEADER_VARIABLE: "127.0.0.1"}
    server = await asyncio.start_server(lambda *_: None, "0.0.0.0", port)
    async with server, pods.running(plan, tmp_path, env=env) as pod:
        assert await pod.exit_status() == ExitCode.PREFLIGHT
    assert pod.reason is Reason.PREFLIGHT_FAILED
    assert pod.message.startswith(f"port {port} of the group cannot be bound (")


async def test_a_crowd_at_the_runtimes_port_leaves_probes_and_streams_alone(
    model: Path, tmp_path: Path
) -> None:
    plan = pods.plan_for(model, switches=("--seconds-per-token", "0.05"))
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        client = asyncio.create_task(pod.stream(100))
        crowd = [await asyncio.open_connection("127.0.0.1", plan.runtime_port) for _ in range(900)]
        for number, (_, writer) in enumerate(crowd):
            writer.write((b"", b"GET /readyz HTTP/1.1\r\nA: ", os.urandom(40))[number % 3])
        for path in (contract.READY_PATH, contract.LIVE_PATH, contract.STATUS_PATH):
            assert await pod.check(path) == 200
        assert pods.finish_reason(await client) == "length"
        await pods.until(lambda: _connections(pod.process.pid) < 600)
        assert await pod.ready()
        assert "Traceback" not in pod.log
        for _, writer in crowd:
            writer.close()


def _connections(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


ENGAGES: Final = (
    "import runpy, sys; from kindling_runtime.plugins import idle_connections;"
    " idle_connections.IDLE_CONNECTIONS.engage();"
    " sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Makes the correction as vLLM's processes do, then is the stand-in, whose server is vLLM's."""
DESCRIPTORS: Final = 1024
STRANGERS: Final = 900
"""Beyond the descriptors asyncio's own server logs 2,048 errors at each attempt to accept; vLLM's
is uvloop, and `contract/engine/test_attacks.py` goes beyond them."""


async def test_a_crowd_at_the_engines_port_makes_room_for_who_asks(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        "900 connections that ask nothing at the port of an engine with 1,024 file descriptors",
        "those that ask nothing end down to half of the descriptors; a request is served, a stream"
        " whole, the pod stays ready",
    )
    bare = pods.plan_for(model, switches=("--seconds-per-token", "0.05"))
    argv = (sys.executable, "-c", ENGAGES, *bare.engine.argv[1:])
    plan = msgspec.structs.replace(bare, engine=msgspec.structs.replace(bare.engine, argv=argv))
    few = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh")
    async with pods.running(plan, tmp_path, prefix=few) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(200)
        fault.begins()
        crowd = [
            await asyncio.open_connection("127.0.0.1", plan.engine.port) for _ in range(STRANGERS)
        ]
        for _, writer in crowd[::2]:
            writer.write(b"POST /v1/completions HTTP/1.1\r\nA: ")
        assert pods.finish_reason(await pod.stream(1)) == "length"
        ends = STRANGERS - DESCRIPTORS // 2
        await pods.until(lambda: sum(reader.at_eof() for reader, _ in crowd) >= ends)
        fault.within(pods.PATIENCE, "room")
        assert pods.finish_reason(await client) == "length"
        assert (await pod.status()).phase is Phase.READY
        assert Phase.STALLED not in pod.log
        for _, writer in crowd:
            writer.close()
