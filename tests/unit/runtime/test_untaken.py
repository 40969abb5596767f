"""Answers that clients have not taken, as the kernel of this machine tells them."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.engine.pod import until

from kindling_runtime import untaken
from kindling_runtime.untaken import Untaken

ANSWER = bytes(32 << 20)
"""More than the kernel takes for a client that does not read."""


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as server:
        yield server


def _answered(server: socket.socket, answer: bytes) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(server.getsockname()[:2])
    given, _ = server.accept()
    given.setblocking(False)
    given.send(answer)
    return client, given


async def test_a_connection_counts_until_its_client_has_taken_all(
    listening: socket.socket,
) -> None:
    port = listening.getsockname()[1]
    slow, given = _answered(listening, ANSWER)
    quick, short = _answered(listening, b"all of it")
    with slow, given, quick, short:
        await until(lambda: len(untaken.connections(port)) == 1)
        left = Untaken(port)
        assert left.count(running=2, over=False) == 0, "what runs is waited for anyway"
        assert left.count(running=0, over=False) == 1
        # One that comes later is a refusal, and is not waited for.
        late, refused = _answered(listening, ANSWER)
        with late, refused:
            await until(lambda: len(untaken.connections(port)) == 2)
            assert left.count(running=0, over=False) == 1
            slow.setblocking(False)
            given.shutdown(socket.SHUT_WR)
            await until(lambda: not _takes(slow))
            await until(lambda: left.count(running=0, over=False) == 0)


def _takes(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1 << 20))
    except BlockingIOError:
        return True


async def test_what_has_run_until_its_time_was_over_is_not_counted_twice(
    listening: socket.socket,
) -> None:
    port = listening.getsockname()[1]
    deaf, given = _answered(listening, ANSWER)
    with deaf, given:
        await until(lambda: len(untaken.connections(port)) == 1)
        left = Untaken(port)
        assert left.count(running=1, over=False) == 0
        assert left.count(running=1, over=True) == 0
        assert left.count(running=0, over=True) == 0, "it was cut, and is counted as that"


def test_a_kernel_that_does_not_tell_holds_nobody_up(tmp_path: Path) -> None:
    (table := tmp_path / "tcp").write_text("head\n\n 0: 1F40\n 1: 0:1F40 0:1 01\n")
    assert untaken.connections(0x1F40, tables=[tmp_path / "none", table]) == frozenset()
