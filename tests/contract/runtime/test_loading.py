"""A load that stands still is found in time; one that is merely slow is kept: real processes."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kindling_runtime.loading import READ_BYTES, WRITTEN_BYTES, LoadWatch, Work, judge, work_of
from kindling_runtime.state import Event, Idle, Worked

STUCK = 3

READS = "import time\nwhile True:\n  open({file!r}, 'rb').read()\n  time.sleep(0.5)"
COMPUTES = "while True: pass"
WRITES = (
    "import os, time\nfile = open({file!r}, 'wb')\n"
    "while True:\n  file.write(b'x' * (1 << 18)); file.flush(); os.fsync(file); time.sleep(0.5)"
)
LOGS = "import time\nwhile True:\n  print('x' * (1 << 17), flush=True)\n  time.sleep(0.5)"
SLEEPS = "import time; time.sleep(600)"
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"


@contextmanager
def session(program: str) -> Iterator[int]:
    """A program that leads a session of its own, as the engine does."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=process.stdout.read, daemon=True)
        reader.start()
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            reader.join()


@asynccontextmanager
async def watched(pid: int) -> AsyncIterator[list[Event]]:
    seen: list[Event] = []
    task = asyncio.create_task(LoadWatch(pid, stuck_seconds=STUCK).run(seen.append))
    try:
        yield seen
    finally:
        task.cancel()


async def idle_in(seen: list[Event], *, within: float) -> Idle | None:
    end = time.monotonic() + within
    while time.monotonic() < end:
        for event in seen:
            if isinstance(event, Idle):
                return event
        await asyncio.sleep(0.1)
    return None


@pytest.fixture
def reads(tmp_path: Path) -> str:
    file = tmp_path / "weights"
    file.write_bytes(b"x" * (2 * READ_BYTES))
    return READS.format(file=str(file))


async def test_a_process_that_is_stopped_is_found_within_the_bound(reads: str) -> None:
    with session(reads) as pid:
        async with watched(pid) as seen:
            assert await idle_in(seen, within=STUCK + 4) is None
            assert Worked(moved=True) in seen
            os.kill(pid, signal.SIGSTOP)
            idle = await idle_in(seen, within=STUCK + 10)

    assert idle is not None
    assert idle.seconds >= STUCK


async def test_a_child_that_reads_is_the_engine_at_work(reads: str) -> None:
    with session(CHILD.format(program=reads)) as pid:
        async with watched(pid) as seen:
            assert await idle_in(seen, within=STUCK + 4) is None
    assert Worked(moved=True) in seen


async def test_one_that_only_computes_is_at_work_and_does_not_move() -> None:
    with session(COMPUTES) as pid:
        await asyncio.sleep(1.5)  # its own start reads Python's modules
        async with watched(pid) as seen:
            assert await idle_in(seen, within=STUCK + 4) is None
    assert set(seen) == {Worked(moved=False)}


async def test_one_that_writes_files_moves() -> None:
    # Not in /tmp, which may be memory.
    with (
        tempfile.NamedTemporaryFile(dir="/var/tmp") as file,
        session(WRITES.format(file=file.name)) as pid,
    ):
        async with watched(pid) as seen:
            assert await idle_in(seen, within=STUCK + 4) is None
    assert Worked(moved=True) in seen


async def test_one_that_only_logs_is_idle() -> None:
    """As vLLM does while its processes wait for each other."""
    with session(LOGS) as pid:
        async with watched(pid) as seen:
            assert await idle_in(seen, within=STUCK + 10) is not None


async def test_one_that_waits_for_nothing_is_idle() -> None:
    with session(SLEEPS) as pid:
        async with watched(pid) as seen:
            assert await idle_in(seen, within=STUCK + 10) is not None


def test_processes_of_others_do_not_count() -> None:
    with session(COMPUTES) as pid:
        time.sleep(0.5)
        assert work_of(pid).seconds > 0
        assert work_of(os.getpid() + 10**6).seconds == 0


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (Work(), None),
        (Work(read=READ_BYTES - 1), None),
        (Work(seconds=0.04), None),
        (Work(read=READ_BYTES), Worked(moved=True)),
        (Work(faults=1), Worked(moved=True)),
        (Work(written=WRITTEN_BYTES - 1), None),
        (Work(written=WRITTEN_BYTES), Worked(moved=True)),
        (Work(seconds=0.05), Worked(moved=False)),
        (Work(seconds=0.05, faults=1), Worked(moved=True)),
    ],
)
def test_what_counts_as_work(after: Work, found: Worked | None) -> None:
    assert judge(Work(), after, elapsed=1.0) == found


def test_a_process_that_ended_was_at_work() -> None:
    assert judge(Work(read=10 * READ_BYTES), Work(), elapsed=1.0) == Worked(moved=True)
