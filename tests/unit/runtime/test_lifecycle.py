"""The state machine, as tables: what happened when, and what must then hold."""

import dataclasses

import pytest
from tests.support.histories import (
    CLEAN,
    CRASH,
    DRAINING,
    LOADED,
    MISS,
    SERVING,
    STOPPING,
    TERM,
    TICK,
    TOKEN,
    History,
    after,
)

from kindling_runtime.contract import (
    KILL_SECONDS,
    Drain,
    DrainStep,
    ExitCode,
    Phase,
    Reason,
)
from kindling_runtime.state import (
    EngineExited,
    Idle,
    Miss,
    Order,
    Paused,
    PreflightFailed,
    Worked,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Holds:
    """What must hold at the end of a history."""

    phase: Phase
    reason: Reason
    order: Order = Order.RUN
    step: DrainStep | None = None
    finished: bool = False


SERVES = Holds(Phase.READY, Reason.TOKEN_GENERATED)
STALLS = Holds(Phase.STALLED, Reason.NO_TOKEN)
LETS_GO = Holds(Phase.DRAINING, Reason.TERMINATION_REQUESTED, step=DrainStep.ENDPOINTS)
FINISHES = Holds(
    Phase.DRAINING, Reason.TERMINATION_REQUESTED, order=Order.TERMINATE, step=DrainStep.STREAMS
)
KILLS = Holds(Phase.DRAINING, Reason.TERMINATION_REQUESTED, order=Order.KILL, step=DrainStep.KILL)
CASES: dict[str, tuple[History, Holds]] = {
    "nothing has happened": ([], Holds(Phase.STARTING, Reason.PREFLIGHT)),
    "a failed check ends it before there is an engine": (
        [(1, PreflightFailed("no config.json"))],
        Holds(Phase.FAILED, Reason.PREFLIGHT_FAILED, finished=True),
    ),
    "checks that never end fail at the start deadline": (
        [(600, TICK)],
        Holds(Phase.FAILED, Reason.START_DEADLINE_EXCEEDED, finished=True),
    ),
    "a running engine is loading": (LOADED, Holds(Phase.LOADING, Reason.ENGINE_STARTED)),
    "misses while loading are not failures": (
        [*LOADED, (2, MISS), (3, MISS), (599, TICK)],
        Holds(Phase.LOADING, Reason.ENGINE_STARTED),
    ),
    "the first token makes it ready": (SERVING, SERVES),
    "an engine without a token at the start deadline is given up": (
        [*LOADED, (600, TICK)],
        Holds(Phase.FAILED, Reason.START_DEADLINE_EXCEEDED, order=Order.TERMINATE),
    ),
    "a load that still moves is slow and not stuck": (
        [*LOADED, (590, Worked(moved=True)), (649, TICK)],
        Holds(Phase.LOADING, Reason.ENGINE_STARTED),
    ),
    "an overdue load that moves no more is given up": (
        [*LOADED, (590, Worked(moved=True)), (640, Worked(moved=False)), (650, TICK)],
        Holds(Phase.FAILED, Reason.START_DEADLINE_EXCEEDED, order=Order.TERMINATE),
    ),
    "a load in which nothing happens is given up before its time": (
        [*LOADED, (20, Worked(moved=True)), (80, Idle(60))],
        Holds(Phase.FAILED, Reason.STUCK, order=Order.TERMINATE),
    ),
    "an idle engine that serves is at rest": ([*SERVING, (200, Idle(60))], SERVES),
    "an engine that dies while loading has failed": (
        [*LOADED, (5, CRASH)],
        Holds(Phase.FAILED, Reason.ENGINE_EXITED, finished=True),
    ),
    "an engine that the kernel ended at the memory limit": (
        [
            *SERVING,
            (50, EngineExited("exited with status 0: no memory", clean=False, starved=True)),
        ],
        Holds(Phase.FAILED, Reason.OUT_OF_MEMORY, finished=True),
    ),
    "an engine that leaves by itself with status 0 has failed as well": (
        [*SERVING, (50, CLEAN)],
        Holds(Phase.FAILED, Reason.ENGINE_EXITED, finished=True),
    ),
    "one miss does not end readiness": ([*SERVING, (60, MISS)], SERVES),
    "misses in a row end readiness": ([*SERVING, (60, MISS), (71, MISS)], STALLS),
    "a token between two misses keeps it": (
        [*SERVING, (60, MISS), (61, TOKEN), (71, MISS)],
        SERVES,
    ),
    "a token after a stall makes it ready again": (
        [*SERVING, (60, MISS), (71, MISS), (80, TOKEN)],
        SERVES,
    ),
    "a stalled engine is kept until its time is over": (
        [*SERVING, (60, MISS), (71, MISS), (119, TICK)],
        STALLS,
    ),
    "it is wedged the planned time after the first miss": (
        [*SERVING, (60, MISS), (71, MISS), (120, TICK)],
        Holds(Phase.FAILED, Reason.WEDGED, order=Order.TERMINATE),
    ),
    "a token ends that count": (
        [*SERVING, (60, MISS), (71, MISS), (80, TOKEN), (85, MISS), (96, MISS), (140, TICK)],
        STALLS,
    ),
    "a given-up engine that ignores SIGTERM is killed": (
        [*SERVING, (60, MISS), (71, MISS), (120, TICK), (140, TICK)],
        Holds(Phase.FAILED, Reason.WEDGED, order=Order.KILL),
    ),
    "SIGTERM for a given-up engine kills it at once": (
        [*SERVING, (60, MISS), (71, MISS), (120, TICK), (121, TERM)],
        Holds(Phase.FAILED, Reason.WEDGED, order=Order.KILL),
    ),
    "a given-up engine that is gone ends the pod": (
        [*SERVING, (60, MISS), (71, MISS), (120, TICK), (121, CRASH)],
        Holds(Phase.FAILED, Reason.WEDGED, order=Order.TERMINATE, finished=True),
    ),
    "one that even SIGKILL does not end is left": (
        [*SERVING, (60, MISS), (120, TICK), (121, TERM), (121 + KILL_SECONDS, TICK)],
        Holds(Phase.FAILED, Reason.WEDGED, order=Order.LEAVE, finished=True),
    ),
    "SIGTERM before the engine starts ends it": (
        [(1, TERM)],
        Holds(Phase.STOPPED, Reason.STOPPED_WHILE_LOADING, finished=True),
    ),
    "SIGTERM while loading stops the engine at once": ([*LOADED, (5, TERM)], FINISHES),
    "and its exit is clean however it ends": (
        [*LOADED, (5, TERM), (6, CRASH)],
        Holds(
            Phase.STOPPED,
            Reason.STOPPED_WHILE_LOADING,
            order=Order.TERMINATE,
            step=DrainStep.STREAMS,
            finished=True,
        ),
    ),
    "a loading engine that does not heed it is killed soon": (
        [*LOADED, (5, TERM), (10, TICK)],
        KILLS,
    ),
    "SIGTERM lets endpoints go first": (DRAINING, LETS_GO),
    "SIGTERM of a stalled engine drains as well": (
        [*SERVING, (60, MISS), (71, MISS), (80, TERM)],
        LETS_GO,
    ),
    "the engine is told when they had their time": (STOPPING, FINISHES),
    "a second SIGTERM does not wait for endpoints": ([*DRAINING, (101, TERM)], FINISHES),
    "a third one does not cut streams": ([*DRAINING, (101, TERM), (102, TERM)], FINISHES),
    "a clean exit ends the drain": (
        [*STOPPING, (120, CLEAN)],
        Holds(
            Phase.STOPPED,
            Reason.DRAINED,
            order=Order.TERMINATE,
            step=DrainStep.STREAMS,
            finished=True,
        ),
    ),
    "streams and the exit have all of their time": ([*STOPPING, (154.9, TICK)], FINISHES),
    "then the engine is killed": ([*STOPPING, (155, TICK)], KILLS),
    "and the pod says that it cut streams": (
        [*STOPPING, (155, TICK), (155.1, EngineExited("was killed by SIGKILL", clean=False))],
        Holds(
            Phase.FAILED,
            Reason.DRAIN_DEADLINE_EXCEEDED,
            order=Order.KILL,
            step=DrainStep.KILL,
            finished=True,
        ),
    ),
    "an engine that SIGKILL does not end is left": (
        [*STOPPING, (155, TICK), (155 + KILL_SECONDS, TICK)],
        Holds(
            Phase.FAILED,
            Reason.DRAIN_DEADLINE_EXCEEDED,
            order=Order.LEAVE,
            step=DrainStep.KILL,
            finished=True,
        ),
    ),
    "an engine that crashes while it drains has failed": (
        [*STOPPING, (110, CRASH)],
        Holds(
            Phase.FAILED,
            Reason.ENGINE_EXITED,
            order=Order.TERMINATE,
            step=DrainStep.STREAMS,
            finished=True,
        ),
    ),
    "an engine that leaves before it was told has failed": (
        [*DRAINING, (101, CLEAN)],
        Holds(Phase.FAILED, Reason.ENGINE_EXITED, step=DrainStep.ENDPOINTS, finished=True),
    ),
    "no token brings a draining pod back": ([*DRAINING, (101, TOKEN)], LETS_GO),
    "no miss disturbs it": ([*DRAINING, (101, MISS), (102, MISS), (103, MISS)], LETS_GO),
}


@pytest.mark.parametrize(("history", "expected"), CASES.values(), ids=CASES.keys())
def test_history(history: History, expected: Holds) -> None:
    state = after(history)

    found = Holds(state.phase, state.reason, state.order, state.step, state.finished)
    assert found == expected
    assert state.ready == (expected.phase is Phase.READY)
    assert state.alive == (expected.phase is not Phase.FAILED)


def test_no_wait_for_endpoints_is_no_step() -> None:
    drain = Drain(endpoint_seconds=0, stream_seconds=30, grace_seconds=20)

    assert after(DRAINING, drain=drain).step is DrainStep.STREAMS


MESSAGES: dict[str, tuple[History, str]] = {
    "ready": (SERVING, "the engine generates tokens; the first came after 40.0 s"),
    "start deadline": (
        [*LOADED, (2, Miss("it does not accept connections")), (600, TICK)],
        "the engine generated no token within 600 s of start (it does not accept connections); "
        "see its log, or allow it more time to load",
    ),
    "checks": (
        [(600, TICK)],
        "the checks before the engine's start took over 600 s; "
        "see whether the volume of the weights answers",
    ),
    "stalled": (
        [*SERVING, (60, MISS), (71, MISS)],
        "the engine showed no token in 2 looks in a row: it did not answer",
    ),
    "wedged": (
        [*SERVING, (60, MISS), (71, MISS), (120, TICK)],
        "the engine is wedged: it runs and generated no token for 80 s (it did not answer)",
    ),
    "crash": ([*SERVING, (60, CRASH)], "the engine exited with status 1: ValueError: no"),
    "endpoints": (DRAINING, "endpoints have 5 s to let go of the pod"),
    "streams": (STOPPING, "running streams have 30 s to finish"),
    "in time": (
        [*STOPPING, (112.5, CLEAN)],
        "the engine ended cleanly 7.5 s after SIGTERM, within its 30 s",
    ),
    "cut by the engine": (
        [*STOPPING, (140, CLEAN)],
        "the engine ended cleanly 35.0 s after SIGTERM; "
        "streams that needed more than 30 s were cut",
    ),
    "cut by us": (
        [*STOPPING, (155, TICK), (156, CRASH)],
        "the engine still ran 50 s after SIGTERM and was killed, so running streams were cut; "
        "allow a longer drain",
    ),
    "crash while draining": (
        [*STOPPING, (110, CRASH)],
        "running streams were cut, because the engine exited with status 1: ValueError: no",
    ),
    "stopped while loading": (
        [*LOADED, (5, TERM), (6, CLEAN)],
        "the pod was told to stop before the first token, so nothing was cut",
    ),
}


@pytest.mark.parametrize(("history", "message"), MESSAGES.values(), ids=MESSAGES.keys())
def test_message(history: History, message: str) -> None:
    assert after(history).message == message


def test_what_a_message_quotes_moves_no_terminal() -> None:
    state = after([(1, PreflightFailed("no \x1b[2J\n\u202efile"))])

    assert state.message == "no [2J file"


EXITS: dict[str, tuple[History, ExitCode]] = {
    "a clean drain": ([*STOPPING, (120, CLEAN)], ExitCode.CLEAN),
    "a stop while loading": ([*LOADED, (5, TERM), (6, CRASH)], ExitCode.CLEAN),
    "a failed check": ([(1, PreflightFailed("no"))], ExitCode.PREFLIGHT),
    "a dead engine": ([*SERVING, (60, CRASH)], ExitCode.ENGINE),
    "cut streams": ([*STOPPING, (155, TICK), (156, CRASH)], ExitCode.ENGINE),
}


@pytest.mark.parametrize(("history", "status"), EXITS.values(), ids=EXITS.keys())
def test_exit_status(history: History, status: ExitCode) -> None:
    state = after(history)

    assert state.finished
    assert state.exit_code is status


STOOD_STILL: dict[str, tuple[History, Phase]] = {
    "nobody looked": ([*SERVING, (50, MISS), (500, Paused(440)), (500, TICK)], Phase.READY),
    "it looked again": ([*SERVING, (50, MISS), (500, Paused(440)), (500, MISS)], Phase.STALLED),
    "and again": (
        [*SERVING, (50, MISS), (500, Paused(440)), (500, MISS), (551, MISS)],
        Phase.FAILED,
    ),
    "a load": (
        [*LOADED, (599, Worked(moved=True)), (900, Paused(300)), (901, TICK)],
        Phase.LOADING,
    ),
    "a drain goes on": ([*STOPPING, (500, Paused(300)), (500, TICK)], Phase.DRAINING),
}


@pytest.mark.parametrize(("history", "phase"), STOOD_STILL.values(), ids=STOOD_STILL.keys())
def test_a_time_in_which_nobody_looked_is_not_held_against_the_engine(
    history: History, phase: Phase
) -> None:
    assert after(history).phase is phase
