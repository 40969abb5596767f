"""What no sequence of events may bring about."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kindling_runtime.contract import (
    CUT_SECONDS,
    KILL_SECONDS,
    Drain,
    EvidenceSource,
    Front,
    Phase,
    Probe,
)
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.state import (
    EngineExited,
    EngineStarted,
    EngineState,
    Event,
    GroupBroken,
    Miss,
    PreflightFailed,
    Requests,
    Signal,
    State,
    Token,
)

seconds = st.integers(1, 60)
machines = st.builds(
    Lifecycle,
    probe=st.builds(
        Probe,
        startup_seconds=seconds,
        token_seconds=seconds,
        interval_seconds=seconds,
        unready_failures=st.integers(1, 4),
        wedged_seconds=seconds,
    ),
    drain=st.builds(
        Drain,
        endpoint_seconds=st.integers(0, 60),
        stream_seconds=seconds,
        grace_seconds=seconds,
    ),
    started=st.just(0.0),
    gather_seconds=st.sampled_from([0, 30]),
    follows=st.booleans(),
    front=st.none() | st.builds(Front, quiet_seconds=seconds, settle_seconds=st.integers(0, 60)),
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(EngineStarted, pid=st.just(7)),
    st.builds(PreflightFailed, problem=st.just("a problem")),
    st.builds(Token, source=st.sampled_from(EvidenceSource)),
    st.builds(Miss, why=st.just("why")),
    st.builds(EngineExited, how=st.just("exited"), clean=st.booleans()),
    st.builds(GroupBroken, why=st.just("another is gone")),
    st.builds(
        Requests,
        active=st.integers(0, 3),
        quiet_seconds=st.floats(0, 90),
        cut=st.integers(0, 3),
    ),
    st.sampled_from(Signal),
)
# Quarters of a second, which add up without rounding.
pauses = st.integers(0, 120).map(lambda quarters: quarters / 4)
histories = st.lists(st.tuples(pauses, events), max_size=40)

LEAVING = {Phase.DRAINING, Phase.STOPPED, Phase.FAILED}


def walk(machine: Lifecycle, history: list[tuple[float, Event]]) -> list[tuple[Event, State]]:
    """Each event with the state that it led to."""
    state, now, seen = machine.begin(), 0.0, []
    for pause, event in history:
        now += pause
        state = machine.advance(state, event, now=now)
        seen.append((event, state))
    return seen


@given(machines, histories)
def test_never_ready_without_a_token_of_a_running_engine(
    machine: Lifecycle, history: list[tuple[float, Event]]
) -> None:
    tokens = 0
    for event, state in walk(machine, history):
        tokens += isinstance(event, Token)
        if state.ready:
            assert tokens > 0
            assert state.engine is EngineState.RUNNING


@given(machines, histories)
def test_nothing_returns_from_leaving(
    machine: Lifecycle, history: list[tuple[float, Event]]
) -> None:
    states = [state for _, state in walk(machine, history)]
    for before, later in itertools.pairwise(states):
        if before.phase in LEAVING:
            assert later.phase in LEAVING
        if before.phase in {Phase.STOPPED, Phase.FAILED}:
            assert later.phase is before.phase
            assert later.exit_code is before.exit_code


@given(machines, histories)
def test_orders_only_rise_and_a_finished_pod_stays_finished(
    machine: Lifecycle, history: list[tuple[float, Event]]
) -> None:
    states = [state for _, state in walk(machine, history)]
    for before, later in itertools.pairwise(states):
        assert later.order >= before.order
        if before.finished:
            assert later == before


@given(machines, histories)
def test_after_sigterm_time_alone_ends_it_within_the_planned_waits(
    machine: Lifecycle, history: list[tuple[float, Event]]
) -> None:
    now = sum(pause for pause, _ in history)
    states = [machine.begin(), *(state for _, state in walk(machine, history))]
    state = machine.advance(states[-1], Signal.TERMINATE, now=now)
    asked = now
    for _ in range(10):
        deadline = machine.deadline(state)
        if deadline is None:
            break
        now = max(now, deadline)
        state = machine.advance(state, Signal.TICK, now=now)

    drain = machine.drain
    longest = drain.endpoint_seconds + drain.stream_seconds + drain.grace_seconds
    assert state.finished
    assert now - asked <= longest + CUT_SECONDS + KILL_SECONDS


@given(machines, histories)
def test_every_message_is_one_sentence(
    machine: Lifecycle, history: list[tuple[float, Event]]
) -> None:
    for _, state in walk(machine, history):
        assert state.message
        assert "\n" not in state.message
        assert not state.message.endswith(".")
