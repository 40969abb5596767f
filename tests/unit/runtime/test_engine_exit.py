"""How the end of an engine is told."""

import asyncio
import os
import signal

import pytest

from kindling_runtime.engine import Engine, describe_exit
from kindling_runtime.state import EngineExited

CASES: dict[str, tuple[int, str | None, str]] = {
    "a status with a cause": (1, "ValueError: no", "exited with status 1: ValueError: no"),
    "a status without": (0, None, "exited with status 0 and logged no error"),
    "a signal with a cause": (
        -signal.SIGILL,
        "Fatal Python error: Illegal instruction",
        "was killed by SIGILL: Fatal Python error: Illegal instruction",
    ),
    "a signal without": (-signal.SIGSEGV, None, "was killed by SIGSEGV and logged no error"),
    "the kernel's choice for memory": (
        -signal.SIGKILL,
        None,
        "was killed by SIGKILL, which is how the kernel ends a process over its memory limit",
    ),
    "a signal without a name": (-60, None, "was killed by signal 60 and logged no error"),
}


@pytest.mark.parametrize(("status", "said", "described"), CASES.values(), ids=CASES.keys())
def test_description(status: int, said: str | None, described: str) -> None:
    assert describe_exit(status, said) == described


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", EngineExited("exited with status 0 and logged no error", clean=True)),
        ("exit 143", EngineExited("exited with status 143 and logged no error", clean=True)),
        ("kill -TERM $$", EngineExited("was killed by SIGTERM and logged no error", clean=True)),
        (
            "echo ValueError: no >&2; exit 1",
            EngineExited("exited with status 1: ValueError: no", clean=False),
        ),
        (
            "echo vllm.EngineDeadError: dead; exit 0",
            EngineExited("exited with status 0: vllm.EngineDeadError: dead", clean=False),
        ),
    ],
)
async def test_the_end_of_a_process(script: str, expected: EngineExited) -> None:
    engine = Engine.launch(("sh", "-c", script), {})
    _, status = await asyncio.to_thread(os.waitpid, engine.pid, 0)

    assert await engine.buried(os.waitstatus_to_exitcode(status)) == expected
