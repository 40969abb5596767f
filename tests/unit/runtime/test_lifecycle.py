"""The state machine, as tables: what happened when, and what must then hold."""

import dataclasses

import pytest

from kindling_runtime.contract import (
    KILL_SECONDS,
    Drain,
    DrainStep,
    EvidenceSource,
    ExitCode,
    Front,
    Phase,
    Probe,
    Reason,
)
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.state import (
    EngineExited,
    EngineStarted,
    Event,
    GroupBroken,
    Idle,
    Miss,
    Order,
    PreflightFailed,
    Requests,
    Signal,
    State,
    Token,
    Worked,
)

PROBE = Probe(
    startup_seconds=600,
    token_seconds=10,
    interval_seconds=15,
    unready_failures=2,
    wedged_seconds=60,
)
DRAIN = Drain(endpoint_seconds=5, stream_seconds=30, grace_seconds=20)

START = EngineStarted(pid=7)
TOKEN = Token(EvidenceSource.CANARY)
MISS = Miss("it did not answer")
CLEAN = EngineExited("exited with status 0 and logged no error", clean=True)
CRASH = EngineExited("exited with status 1: ValueError: no", clean=False)
TERM = Signal.TERMINATE
TICK = Signal.TICK

History = list[tuple[float, Event]]
LOADED: History = [(1, START)]
SERVING: History = [*LOADED, (40, TOKEN)]
DRAINING: History = [*SERVING, (100, TERM)]
STOPPING: History = [*DRAINING, (105, TICK)]


def after(history: History, *, drain: Drain = DRAIN) -> State:
    """The state that `history` leads to, of a process that began at time 0."""
    machine = Lifecycle(probe=PROBE, drain=drain, started=0.0)
    state = machine.begin()
    for now, event in history:
        state = machine.advance(state, event, now=now)
    return state


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
    "a loading engine has only the grace period": ([*LOADED, (5, TERM), (25, TICK)], KILLS),
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


FOLLOWER = Lifecycle(probe=PROBE, drain=DRAIN, started=0.0, gather_seconds=1800, follows=True)
HEARD = Token(EvidenceSource.LEADER)
GATHERED: History = [(1, Signal.GATHERING), (900, Signal.GATHERED), (901, START)]
FOLLOWING: History = [*GATHERED, (902, HEARD)]
LOST = GroupBroken("the leader of the group has started again")


def followed(history: History) -> State:
    """The state of a follower that answers no requests."""
    state = FOLLOWER.begin()
    for now, event in history:
        state = FOLLOWER.advance(state, event, now=now)
    return state


def test_waiting_for_the_group_has_a_deadline_of_its_own() -> None:
    waiting = followed([(1, Signal.GATHERING), (2, Miss("1 of 2 pods are there and wait"))])
    assert (waiting.phase, waiting.reason) == (Phase.STARTING, Reason.GATHERING)
    assert FOLLOWER.deadline(waiting) == 1 + 1800

    late = FOLLOWER.advance(waiting, TICK, now=1801)
    assert (late.phase, late.reason) == (Phase.FAILED, Reason.START_DEADLINE_EXCEEDED)
    assert "the group was not complete within 1800 s (1 of 2 pods are there" in late.message


def test_the_time_to_start_begins_when_the_group_is_complete() -> None:
    assert FOLLOWER.deadline(followed(GATHERED)) == 900 + PROBE.startup_seconds


def test_a_follower_is_ready_while_its_leader_answers() -> None:
    assert followed(FOLLOWING).ready
    stalled = followed([*FOLLOWING, (910, MISS), (911, MISS)])
    assert (stalled.phase, stalled.message) == (
        Phase.STALLED,
        "the leader was not heard in 2 looks in a row: it did not answer",
    )
    assert followed([*FOLLOWING, (910, MISS), (911, MISS), (912, HEARD)]).ready


def test_a_follower_gives_its_engine_up_when_the_leader_is_silent() -> None:
    lost = followed([*FOLLOWING, (910, MISS), (970, TICK)])
    assert (lost.phase, lost.reason, lost.order) == (
        Phase.FAILED,
        Reason.GROUP_BROKEN,
        Order.TERMINATE,
    )


@pytest.mark.parametrize("history", [GATHERED, FOLLOWING], ids=["loading", "ready"])
def test_a_broken_group_ends_the_engine(history: History) -> None:
    broken = followed([*history, (950, LOST)])
    assert (broken.phase, broken.reason, broken.message) == (
        Phase.FAILED,
        Reason.GROUP_BROKEN,
        LOST.why,
    )
    assert broken.order is Order.TERMINATE


def test_a_follower_that_is_told_to_leave_waits_for_its_leader() -> None:
    leaving = [*FOLLOWING, (1000, TERM)]
    waits = followed(leaving)
    assert (waits.step, waits.order) == (DrainStep.LEADER, Order.RUN)
    assert followed([*leaving, (1001, LOST)]) == waits
    assert FOLLOWER.deadline(waits) == 1000 + 5 + 30

    for end in (Signal.LEADER_GONE, TERM):
        assert followed([*leaving, (1010, end)]).order is Order.TERMINATE
    assert followed([*leaving, (1035, TICK)]).order is Order.TERMINATE

    gone = followed([*leaving, (1010, Signal.LEADER_GONE), (1012, CRASH)])
    assert (gone.phase, gone.reason, gone.exit_code) == (
        Phase.STOPPED,
        Reason.DRAINED,
        ExitCode.CLEAN,
    )


def test_events_of_a_group_leave_other_pods_alone() -> None:
    serving = after(SERVING)
    assert after([*SERVING, (50, Signal.LEADER_GONE)]) == serving


FRONT = Front(quiet_seconds=3, settle_seconds=5)
FRONTED = Lifecycle(
    probe=PROBE,
    drain=Drain(endpoint_seconds=20, stream_seconds=30, grace_seconds=20),
    started=0.0,
    front=FRONT,
)
QUIET = 10.0
"""No new request for longer than endpoints need."""


def requests(active: int, *, quiet: float = QUIET, cut: int = 0) -> Requests:
    """What the front counts."""
    return Requests(active=active, quiet_seconds=quiet, cut=cut)


REFUSING: History = [*DRAINING, (106, requests(2)), (106.1, requests(2))]
CUTTING: History = [*REFUSING, (136, TICK)]
EXITING: History = [*REFUSING, (110, requests(0))]


def fronted(history: History) -> State:
    """The state of a pod whose engine has a front."""
    state = FRONTED.begin()
    for now, event in history:
        state = FRONTED.advance(state, event, now=now)
    return state


ORDERED: dict[str, tuple[History, DrainStep | None, Order]] = {
    "endpoints are left to themselves, connections are not kept": (
        DRAINING,
        DrainStep.ENDPOINTS,
        Order.CLOSE,
    ),
    "not before they could know": (
        [*DRAINING, (104.9, requests(0))],
        DrainStep.ENDPOINTS,
        Order.CLOSE,
    ),
    "not while new requests come": (
        [*DRAINING, (110, requests(1, quiet=2.9))],
        DrainStep.ENDPOINTS,
        Order.CLOSE,
    ),
    "once none has come for long": (
        [*DRAINING, (110, requests(1, quiet=3))],
        DrainStep.STREAMS,
        Order.REFUSE,
    ),
    "or their time is over": ([*DRAINING, (120, TICK)], DrainStep.STREAMS, Order.REFUSE),
    "or SIGTERM comes again": ([*DRAINING, (101, TERM)], DrainStep.STREAMS, Order.REFUSE),
    "a third SIGTERM cuts nothing": (
        [*DRAINING, (101, TERM), (102, TERM)],
        DrainStep.STREAMS,
        Order.REFUSE,
    ),
    "the engine is told when nothing runs": (EXITING, DrainStep.EXIT, Order.TERMINATE),
    "and not before": ([*REFUSING, (110, requests(1))], DrainStep.STREAMS, Order.REFUSE),
    "what runs too long is cut": (CUTTING, DrainStep.STREAMS, Order.CUT),
    "and then the engine is told": (
        [*CUTTING, (136.2, requests(0, cut=2))],
        DrainStep.EXIT,
        Order.TERMINATE,
    ),
    "though its server may no longer listen": (
        [*CUTTING, (137, TICK)],
        DrainStep.EXIT,
        Order.TERMINATE,
    ),
    "an engine that stays is killed": ([*EXITING, (130, TICK)], DrainStep.KILL, Order.KILL),
    "a front that does not count leaves all to the engine": (
        [*DRAINING, (120, TICK), (120.1, Signal.UNCOUNTED)],
        DrainStep.STREAMS,
        Order.TERMINATE,
    ),
    "which then has the time for both": (
        [*DRAINING, (120, TICK), (120.1, Signal.UNCOUNTED), (170, TICK)],
        DrainStep.STREAMS,
        Order.TERMINATE,
    ),
    "while it loads nothing is waited for": (
        [*LOADED, (5, TERM)],
        DrainStep.STREAMS,
        Order.TERMINATE,
    ),
    "before SIGTERM counts change nothing": ([*SERVING, (50, requests(0))], None, Order.RUN),
}


@pytest.mark.parametrize(("history", "step", "order"), ORDERED.values(), ids=ORDERED.keys())
def test_leaving_with_a_front(history: History, step: DrainStep | None, order: Order) -> None:
    state = fronted(history)

    assert (state.step, state.order) == (step, order)


ENDS: dict[str, tuple[History, ExitCode, Reason, str]] = {
    "all finished": (
        [*EXITING, (120, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "all 2 running requests finished; the engine ended cleanly 10.0 s after SIGTERM",
    ),
    "nothing ran": (
        [*DRAINING, (106, requests(0)), (106.1, requests(0)), (110, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "no request was running; the engine ended cleanly 3.9 s after SIGTERM",
    ),
    "one was cut": (
        [*CUTTING, (136.2, requests(0, cut=1)), (140, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAIN_DEADLINE_EXCEEDED,
        "1 of 2 running requests were cut; the engine ended cleanly 3.8 s after SIGTERM",
    ),
    "one is cut by a server that does not answer": (
        [*CUTTING, (136.2, requests(1)), (137, TICK), (140, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAIN_DEADLINE_EXCEEDED,
        "1 of 2 running requests were cut; the engine ended cleanly 3.0 s after SIGTERM",
    ),
    "an idle engine that does not exit harms nobody": (
        [*EXITING, (130, TICK), (131, CRASH)],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "all 2 running requests finished; the engine still ran 20 s after SIGTERM and was killed",
    ),
    "it dies under its streams": (
        [*REFUSING, (107, dataclasses.replace(CRASH, cut=2))],
        ExitCode.ENGINE,
        Reason.ENGINE_EXITED,
        "2 of 2 running requests were cut, because the engine exited with status 1: ValueError: no",
    ),
    "it dies with nothing left to do": (
        [*EXITING, (111, CRASH)],
        ExitCode.ENGINE,
        Reason.ENGINE_EXITED,
        "all 2 running requests finished, but the engine exited with status 1: ValueError: no",
    ),
    "uncounted, as without a front": (
        [*DRAINING, (120, TICK), (120, Signal.UNCOUNTED), (127.5, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "the engine ended cleanly 7.5 s after SIGTERM, within its 30 s",
    ),
}


@pytest.mark.parametrize(("history", "status", "reason", "message"), ENDS.values(), ids=ENDS.keys())
def test_the_end_with_a_front(
    history: History, status: ExitCode, reason: Reason, message: str
) -> None:
    state = fronted(history)

    assert state.finished
    assert (state.exit_code, state.reason, state.message) == (status, reason, message)
