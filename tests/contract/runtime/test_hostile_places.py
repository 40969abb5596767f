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
    assert pod.message.startswith("2 of 2 running requests were cut; the engine ended cleanly")


def _connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return client


async def _running(pod: pods.Pod, count: int) -> None:
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            traffic = (await pod.status()).traffic
            if traffic is not None and traffic.active >= count:
                return
            await asyncio.sleep(0.05)
