"""How the end of an engine is told."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kindling_runtime import starving
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
def test_description(
    status: int, said: str | None, described: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starving, "are_counted", lambda: False)
    assert describe_exit(status, said) == described


def test_a_killed_engine_is_not_called_starved_where_the_kernel_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starving, "are_counted", lambda: True)

    assert describe_exit(-signal.SIGKILL, None) == (
        "was killed by SIGKILL from outside, as the kernel has ended nothing for memory"
    )


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


async def test_a_child_that_the_kernel_ended_at_the_limit_is_told_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """vLLM's server outlives its engine core, and ends as if nothing were."""
    kills = iter((2, 3))
    monkeypatch.setattr(starving, "kills", lambda: next(kills))
    monkeypatch.setattr(starving, "memory_limit", lambda: 6 << 30)
    monkeypatch.setattr(starving, "memory_peak", lambda: 6 << 30)
    engine = Engine.launch(("sh", "-c", "echo vllm.EngineDeadError: dead; exit 0"), {})
    _, status = await asyncio.to_thread(os.waitpid, engine.pid, 0)

    end = await engine.buried(os.waitstatus_to_exitcode(status))

    assert (end.clean, end.starved) == (False, True)
    assert end.how == (
        "exited with status 0: the kernel ended one of its processes at the container's memory"
        " limit of 6.0 GiB; raise spec.runtime.resources.memory"
    )


async def test_what_the_kernel_ended_before_the_last_tokens_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A helper may die for memory and the engine serve on for a day."""
    monkeypatch.setattr(starving, "kills", lambda: 0)
    engine = Engine.launch(("sh", "-c", "exit 1"), {})
    monkeypatch.setattr(starving, "kills", lambda: 1)
    for _ in range(2):
        engine.served()
    _, status = await asyncio.to_thread(os.waitpid, engine.pid, 0)

    assert not (await engine.buried(os.waitstatus_to_exitcode(status))).starved


@pytest.mark.parametrize("limit", [None, 8 << 30])
def test_a_node_without_memory_is_not_blamed_on_the_limit(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starving, "memory_limit", lambda: limit)
    monkeypatch.setattr(starving, "memory_peak", lambda: 3 << 30)

    assert starving.sentence() == (
        "the kernel ended one of its processes because the node had no memory left; the container"
        " had 3.0 GiB at most, so see what else takes the node's"
    )


def test_version_1_shows_a_number_where_there_is_no_limit(tmp_path: Path) -> None:
    (file := tmp_path / "limit").write_text("9223372036854771712\n")

    assert starving.memory_limit((file,)) is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 4\noom 1\noom_kill 3\noom_group_kill 0\n", 3),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
    ],
    ids=["version 2", "version 1", "an old kernel"],
)
def test_what_the_kernel_counts(text: str, count: int, tmp_path: Path) -> None:
    (file := tmp_path / "events").write_text(text)

    assert starving.kills((tmp_path / "none", file)) == count
