"""How a pod leaves whose engine has a front, as tables: who is refused, waited for and cut."""

import dataclasses

import pytest
from tests.support.histories import (
    CLEAN,
    CRASH,
    DRAINING,
    LOADED,
    PROBE,
    SERVING,
    TERM,
    TICK,
    History,
)

from kindling_runtime.contract import (
    Drain,
    DrainStep,
    ExitCode,
    Front,
    Reason,
)
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.state import (
    Order,
    Requests,
    Signal,
    State,
)

FRONT = Front(quiet_seconds=3, settle_seconds=5)
FRONTED = Lifecycle(
    probe=PROBE,
    drain=Drain(endpoint_seconds=20, stream_seconds=30, grace_seconds=20),
    started=0.0,
    front=FRONT,
)
QUIET = 10.0
"""No new request for longer than endpoints need."""


def requests(active: int, *, quiet: float = QUIET, cut: int = 0, untaken: int = 0) -> Requests:
    """What the front counts."""
    return Requests(active=active, quiet_seconds=quiet, cut=cut, untaken=untaken)


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
    "nor while a client still takes its answer": (
        [*REFUSING, (110, requests(0, untaken=1))],
        DrainStep.STREAMS,
        Order.REFUSE,
    ),
    "which has the time of what runs": (
        [*REFUSING, (110, requests(0, untaken=1)), (136, TICK), (136.1, requests(0, untaken=1))],
        DrainStep.EXIT,
        Order.TERMINATE,
    ),
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
    "a client went": (
        [*REFUSING, (110, dataclasses.replace(requests(0), left=1)), (120, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "1 of 2 running requests finished, and 1 client went before; the engine ended cleanly"
        " 10.0 s after SIGTERM",
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
        "1 of 2 running requests were cut after 30 s; the engine ended cleanly 3.8 s after SIGTERM",
    ),
    "one was given and not taken in time": (
        [
            *(*REFUSING, (110, requests(0, untaken=1)), (136, TICK)),
            *((136.1, requests(0, untaken=1)), (140, CLEAN)),
        ],
        ExitCode.CLEAN,
        Reason.DRAIN_DEADLINE_EXCEEDED,
        "1 of 2 running requests were cut after 30 s; the engine ended cleanly 3.9 s after SIGTERM",
    ),
    "one was taken late, and before the engine's end": (
        [
            *(*REFUSING, (110, requests(0, untaken=1)), (136, TICK)),
            *((136.1, requests(0, untaken=1)), (137, requests(0)), (140, CLEAN)),
        ],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "all 2 running requests finished; the engine ended cleanly 3.9 s after SIGTERM",
    ),
    "one runs no more, and its client takes the answer": (
        [
            *(*DRAINING, (106, requests(0)), (106.1, requests(0, untaken=1))),
            *((110, requests(0)), (114, CLEAN)),
        ],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "all 1 running requests finished; the engine ended cleanly 4.0 s after SIGTERM",
    ),
    "one is cut by a server that does not answer": (
        [*CUTTING, (136.2, requests(1)), (137, TICK), (140, CLEAN)],
        ExitCode.CLEAN,
        Reason.DRAIN_DEADLINE_EXCEEDED,
        "1 of 2 running requests were cut after 30 s; the engine ended cleanly 3.0 s after SIGTERM",
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
    "however an idle engine ends, it harms nobody": (
        [*EXITING, (111, CRASH)],
        ExitCode.CLEAN,
        Reason.DRAINED,
        "all 2 running requests finished; the engine exited with status 1: ValueError: no",
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
