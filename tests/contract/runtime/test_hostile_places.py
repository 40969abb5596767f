"""Places that a pod writes to and clients that it serves, when they mean harm."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind
from tests.support.mounts import tmpfs

from kindling_runtime import untaken
from kindling_runtime.contract import Drain, ExitCode, Front, Phase, Reason

PACED = ("--seconds-per-token", "0.05")
DRAIN = Drain(endpoint_seconds=2, stream_seconds=30, grace_seconds=10)
FRONT = Front(quiet_seconds=1, settle_seconds=1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for the front's order and for no server's counts."""
    with tmpfs(tmp_path / "full", "size=4k") as folder:
        yield folder


async def test_a_front_that_has_no_room_to_count_costs_no_stream(
    model: Path, tmp_path: Path, full_disk: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "the disk is full where the front counts, SIGTERM with a stream",
        "not taken for a pod that serves nobody: the engine finishes the stream, exit 0",
    )
    plan = pods.plan_for(model, switches=PACED, drain=DRAIN, front=FRONT)
    async with pods.running(plan, tmp_path, env={"TMPDIR": str(full_disk)}) as pod:
        await pod.reach(Phase.READY)
        assert (await pod.status()).traffic is None
        client = await pod.streaming(250)
        fault.begins()
        pod.terminate()
        assert pods.finish_reason(await client) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(2 + 30 + 10 + pods.ROOM, "exit 0")


async def test_counts_without_those_of_one_server_are_not_believed(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """Two servers are planned, and one could not even create its file: it may be at something."""
    fault.row(
        Kind.DRAIN,
        "one of two servers of an engine has no file to count in, SIGTERM with a stream",
        "not taken for a pod that serves nobody: the engine finishes the stream, exit 0",
    )
    two = msgspec.structs.replace(FRONT, servers=2)
    plan = pods.plan_for(model, switches=PACED, drain=DRAIN, front=two)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        assert (await pod.status()).traffic is None
        client = await pod.streaming(250)
        fault.begins()
        pod.terminate()
        assert pods.finish_reason(await client) == "length"
        assert await pod.exit_status() == ExitCode.CLEAN
        fault.within(2 + 30 + 10 + pods.ROOM, "exit 0")
        assert pod.message.endswith(" s after SIGTERM, within its 30 s")


async def test_a_client_that_never_reads_is_cut_and_counted_in_time(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "a client that never reads its stream, and one that never ends its request",
        "cut after `streamSeconds`, counted, exit 0",
    )
    drain = Drain(endpoint_seconds=1, stream_seconds=4, grace_seconds=10)
    plan = pods.plan_for(model, drain=drain, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        body = b'{"model":"tiny","messages":[],"max_tokens":100000000,"stream":true}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        with _connected(plan.engine.port) as deaf, _connected(plan.engine.port) as mute:
            deaf.sendall(head + length + body)
            mute.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
            await _running(pod, 2)
            fault.begins()
            pod.terminate()
            assert await pod.exit_status() == ExitCode.CLEAN
            fault.within(1 + 4 + 1 + 10 + pods.ROOM, "exit 0")
    assert pod.reason is Reason.DRAIN_DEADLINE_EXCEEDED
    told = "2 of 2 running requests were cut after 4 s; the engine ended cleanly"
    assert pod.message.startswith(told)


def _connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return client


async def _running(pod: pods.Pod, count: int) -> None:
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            traffic = (await pod.status()).traffic
            if traffic is not None and (traffic.active >= count if count else not traffic.active):
                return
            await asyncio.sleep(0.05)


async def test_a_client_that_reads_slowly_gets_its_whole_answer_from_a_pod_that_leaves(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    """The engine is done with it, and its server has handed all of it to the kernel."""
    fault.row(
        Kind.DRAIN,
        "an answer of 15 MB is given and its client reads slowly, SIGTERM",
        "waited for as what runs; whole, counted as finished, exit 0",
    )
    plan = pods.plan_for(model, drain=DRAIN, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        with socket.create_connection(("127.0.0.1", plan.engine.port)) as slow:
            _ask_for_much(slow)
            await pods.until(lambda: bool(untaken.connections(plan.engine.port)))
            await _running(pod, 0)
            fault.begins()
            pod.terminate()
            await pod.printed("new requests are refused, and 1 that run have")
            # Longer than the server's own time for such a connection, which begins with its end.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(6):
                    await pod.process.wait()
            last = await asyncio.to_thread(_read_all, slow)
            assert last.endswith(b'"completion_tokens":2000000}}\r\n0\r\n\r\n')
            assert await pod.exit_status() == ExitCode.CLEAN
            fault.within(2 + 30 + 10 + pods.ROOM, "exit 0")
    assert pod.reason is Reason.DRAINED
    assert pod.message.startswith("all 1 running requests finished; the engine ended cleanly")


async def test_an_answer_that_nobody_takes_in_time_is_counted_as_cut(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.DRAIN,
        "an answer is given and its client never reads it, SIGTERM",
        "waited for until `streamSeconds` are over, then counted as cut, exit 0",
    )
    drain = Drain(endpoint_seconds=1, stream_seconds=3, grace_seconds=2)
    plan = pods.plan_for(model, drain=drain, front=FRONT)
    async with pods.running(plan, tmp_path) as pod:
        await pod.reach(Phase.READY)
        with _connected(plan.engine.port) as deaf:
            _ask_for_much(deaf)
            await pods.until(lambda: bool(untaken.connections(plan.engine.port)))
            await _running(pod, 0)
            fault.begins()
            pod.terminate()
            await pod.exit_status()
            fault.within(1 + 3 + 1 + 2 + pods.ROOM, "exit")
    assert pod.reason is Reason.DRAIN_DEADLINE_EXCEEDED
    assert pod.message.startswith("1 of 1 running requests were cut after 3 s; the engine ")


def _ask_for_much(client: socket.socket) -> None:
    body = b'{"model":"tiny","messages":[],"max_tokens":2000000}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    client.sendall(head % len(body) + body)


def _read_all(client: socket.socket) -> bytes:
    """The end of what comes until the connection ends."""
    last = b""
    while data := client.recv(1 << 20):
        last = (last + data)[-100:]
    return last
