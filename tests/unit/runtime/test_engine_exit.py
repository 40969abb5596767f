"""How the end of an engine is told."""

import signal

import pytest

from kindling_runtime.engine import describe_exit, is_clean

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
    ("status", "clean"), [(0, True), (-signal.SIGTERM, True), (143, True), (1, False), (-9, False)]
)
def test_clean(status: int, clean: bool) -> None:
    assert is_clean(status) is clean
