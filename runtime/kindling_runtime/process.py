"""The runtime as a process: one event loop, one supervisor, one exit status."""

import asyncio
import logging
from pathlib import Path

from kindling_runtime import termination
from kindling_runtime.contract import ExitCode, LaunchPlan, Phase, Reason
from kindling_runtime.membership import Member
from kindling_runtime.state import State
from kindling_runtime.supervise import Supervisor

_log = logging.getLogger(__name__)

_LAST_PHASES = frozenset({Phase.DRAINING, Phase.STOPPED, Phase.FAILED})


def supervise(
    plan: LaunchPlan,
    *,
    version: str,
    started: float,
    shared_memory: Path,
    termination_log: Path,
    member: Member | None = None,
) -> ExitCode:
    """Run `plan` to its end and return the exit status.

    From the first step of leaving on, the termination log holds the latest message: whoever kills
    the process later, the reason is there.
    """

    def changed(state: State, checks: str) -> None:
        if state.phase in _LAST_PHASES:
            termination.write(termination_log, state.reason, state.message, checks)

    async def run() -> State:
        return await Supervisor(
            plan,
            version=version,
            started=started,
            shared_memory=shared_memory,
            changed=changed,
            member=member,
        ).run()

    try:
        return asyncio.run(run()).exit_code
    except Exception as error:
        cause = error
        while isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]
        problem = f"the runtime itself failed with {type(cause).__name__}: {cause}; report its log"
        _log.exception(problem)
        termination.write(termination_log, Reason.RUNTIME_FAILED, problem)
        return ExitCode.ENGINE
