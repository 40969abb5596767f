"""A fault of the runtime itself is told like any other."""

from pathlib import Path

import pytest
from tests.support.engine.plans import launch_plan

from kindling_runtime import process
from kindling_runtime.contract import ExitCode
from kindling_runtime.state import State
from kindling_runtime.supervise import Supervisor


def test_a_fault_of_our_own_is_one_sentence_and_exit_70(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Supervisor) -> State:
        raise ExceptionGroup("tasks", [ZeroDivisionError("division by zero")])

    monkeypatch.setattr(Supervisor, "run", fail)
    log = tmp_path / "termination-log"
    log.touch()
    status = process.supervise(
        launch_plan(),
        version="0",
        started=0.0,
        shared_memory=tmp_path,
        termination_log=log,
    )

    assert status is ExitCode.ENGINE
    assert log.read_text() == (
        "RuntimeFailed: the runtime itself failed with ZeroDivisionError: division by zero; "
        "report its log"
    )
