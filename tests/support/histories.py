"""Histories of a serving pod: what happened when, as the state machine hears it."""

from kindling_runtime.contract import (
    Drain,
    EvidenceSource,
    Probe,
)
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.state import (
    EngineExited,
    EngineStarted,
    Event,
    Miss,
    Signal,
    State,
    Token,
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
