"""The life of a serving pod as a pure state machine.

`Lifecycle` takes a `State`, something that happened and the time, and returns the next `State`.
It starts nothing and waits for nothing: what must be done to the engine stands in `State.order`,
when time alone moves it on in `Lifecycle.deadline`. Readiness, liveness and the exit status are
derived, so they cannot disagree with the phase.

    Starting ─► Loading ─► Ready ◄─► Stalled
        │          │         │          │
        └──────────┴────┬────┴──────────┘
                        ├─► Draining ─► Stopped
                        └─────────────► Failed
"""

import dataclasses

from kindling_runtime.contract import Drain, DrainStep, Front, Phase, Probe, Reason
from kindling_runtime.leaving import (
    BEFORE_STREAMS,
    Leaving,
    enter,
    ordered,
    stopped_while_loading,
)
from kindling_runtime.state import (
    EngineExited,
    EngineStarted,
    EngineState,
    Event,
    GroupBroken,
    Idle,
    Miss,
    Order,
    Paused,
    PreflightFailed,
    Requests,
    Signal,
    State,
    Token,
    Worked,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The rules. `started` is when the process began, on the clock that `now` is read from.

    `gather_seconds` is how long the pod may wait for the others of its group.
    `follows` tells that its engine answers no requests: what it does, its leader shows.
    How it leaves, `leaving` knows.
    """

    probe: Probe
    drain: Drain
    started: float
    gather_seconds: int = 0
    follows: bool = False
    front: Front | None = None

    @property
    def leaving(self) -> Leaving:
        """The rules from SIGTERM on."""
        return Leaving(self.drain, self.front, self.follows)

    def begin(self) -> State:
        """The state of a process that has done nothing yet."""
        return State(
            phase=Phase.STARTING,
            reason=Reason.PREFLIGHT,
            message="the pod is checked before the engine is started",
            since=self.started,
        )

    def advance(self, state: State, event: Event, *, now: float) -> State:
        """The state after `event`, which was noticed at `now`."""
        if state.finished:
            return state
        match event:
            case EngineStarted():
                after = _engine_started(state, event, now=now)
            case PreflightFailed():
                after = _preflight_failed(state, event, now=now)
            case Worked() | Idle() | Paused():
                after = _loads(state, event, now=now)
            case Token():
                after = self._token(state, event, now=now)
            case Miss():
                after = self._miss(state, event, now=now)
            case EngineExited():
                after = self._engine_exited(state, event, now=now)
            case Signal.TERMINATE:
                after = self._terminate(state, now=now)
            case Signal.TICK:
                after = self._tick(state, now=now)
            case _:
                after = self._of_others(state, event, now=now)
        return after

    def deadline(self, state: State) -> float | None:
        """When a tick moves `state` on if nothing else happens."""
        match state.phase:
            case Phase.STARTING if state.reason is Reason.GATHERING:
                return state.since + self.gather_seconds
            case Phase.LOADING if self.follows:
                # Its leader knows whether anybody still loads; and silence of the leader's is told.
                return None
            case Phase.STARTING | Phase.LOADING:
                begun = self.started if state.gathered is None else state.gathered
                planned = begun + self.probe.startup_seconds
                # One that still moves is slow, not stuck.
                moved = planned if state.moved is None else state.moved + self.probe.stuck_seconds
                return max(planned, moved)
            case Phase.READY | Phase.STALLED if state.missing_since is not None:
                return state.missing_since + self.probe.wedged_seconds
            case Phase.DRAINING | Phase.FAILED if not state.finished:
                return state.step_since + self.leaving.step_seconds(state)
            case _:
                return None

    def _token(self, state: State, event: Token, *, now: float) -> State:
        if state.phase not in {Phase.LOADING, Phase.READY, Phase.STALLED}:
            return state
        first = now if state.first_token is None else state.first_token
        seen = dataclasses.replace(
            state,
            first_token=first,
            last_token=now,
            source=event.source,
            misses=0,
            missing_since=None,
        )
        if state.phase is Phase.READY:
            return seen
        if self.follows:
            message = "the engine runs and the leader of its group answers"
            return enter(seen, Phase.READY, Reason.LEADER_ANSWERS, message=message, now=now)
        message = f"the engine generates tokens; the first came after {first - self.started:.1f} s"
        return enter(seen, Phase.READY, Reason.TOKEN_GENERATED, message=message, now=now)

    def _miss(self, state: State, event: Miss, *, now: float) -> State:
        if state.phase in {Phase.STARTING, Phase.LOADING}:
            return dataclasses.replace(state, last_miss=event.why)
        if state.phase not in {Phase.READY, Phase.STALLED}:
            return state
        missed = dataclasses.replace(
            state,
            misses=state.misses + 1,
            missing_since=now if state.missing_since is None else state.missing_since,
            last_miss=event.why,
        )
        if missed.phase is Phase.READY and missed.misses >= self.probe.unready_failures:
            what = "the leader was not heard" if self.follows else "the engine showed no token"
            message = f"{what} in {missed.misses} looks in a row: {event.why}"
            missed = enter(missed, Phase.STALLED, Reason.NO_TOKEN, message=message, now=now)
        return self._tick(missed, now=now)

    def _engine_exited(self, state: State, event: EngineExited, *, now: float) -> State:
        if state.engine is not EngineState.RUNNING:
            return state
        gone = dataclasses.replace(state, engine=EngineState.GONE, cut=max(state.cut, event.cut))
        if state.phase is Phase.FAILED:
            return gone
        if state.phase is Phase.DRAINING:
            return self.leaving.exited(gone, event, now=now)
        message = f"the engine {event.how}"
        reason = Reason.OUT_OF_MEMORY if event.starved else Reason.ENGINE_EXITED
        return enter(gone, Phase.FAILED, reason, message=message, now=now)

    def _terminate(self, state: State, *, now: float) -> State:
        match state.phase:
            case Phase.STARTING:
                return stopped_while_loading(state, now=now)
            case Phase.FAILED:
                return ordered(state, Order.KILL, now=now)
            case Phase.READY | Phase.STALLED if self.follows:
                step = DrainStep.LEADER
            case Phase.READY | Phase.STALLED if self.drain.endpoint_seconds:
                step = DrainStep.ENDPOINTS
            case Phase.LOADING | Phase.READY | Phase.STALLED:
                step = DrainStep.STREAMS
            case Phase.DRAINING if state.step in BEFORE_STREAMS:
                step = DrainStep.STREAMS
            case _:
                return state
        return self.leaving.begin(state, step, now=now)

    def _of_others(
        self, state: State, event: Requests | GroupBroken | Signal, *, now: float
    ) -> State:
        """The state after what the front tells, or what only happens to a pod of a group."""
        match event:
            case Requests() | Signal.UNCOUNTED:
                seen = event if isinstance(event, Requests) else None
                return self.leaving.counted(state, seen, now=now)
            case GroupBroken():
                return _group_broken(state, event.why, now=now)
            case Signal.GATHERING:
                return _gathering(state, now=now)
            case Signal.GATHERED:
                return dataclasses.replace(state, gathered=now)
            case Signal.LEADER_GONE if state.step is DrainStep.LEADER:
                return self.leaving.begin(state, DrainStep.STREAMS, now=now)
            case _:
                return state

    def _tick(self, state: State, *, now: float) -> State:
        deadline = self.deadline(state)
        if deadline is None or now < deadline:
            return state
        match state.phase:
            case Phase.STARTING:
                problem = self._still_starting(state)
                return enter(
                    state, Phase.FAILED, Reason.START_DEADLINE_EXCEEDED, message=problem, now=now
                )
            case Phase.LOADING:
                return _give_up(
                    state, Reason.START_DEADLINE_EXCEEDED, message=self._no_token(state), now=now
                )
            case Phase.READY | Phase.STALLED:
                return self._silent(state, now=now)
            case Phase.DRAINING:
                return self.leaving.overdue(state, now=now)
            case _:
                return ordered(state, Order(state.order + 1), now=now)

    def _silent(self, state: State, *, now: float) -> State:
        """No sign of life for too long, of the engine or of the leader that it follows."""
        if self.follows:
            return _group_broken(state, _leader_lost(state, now=now), now=now)
        return _give_up(state, Reason.WEDGED, message=_wedged(state, now=now), now=now)

    def _still_starting(self, state: State) -> str:
        if state.reason is Reason.GATHERING:
            return (
                f"the group was not complete within {self.gather_seconds} s "
                f"({state.last_miss or 'nobody was heard'}); see why its other pods do not run"
            )
        return (
            f"the checks before the engine's start took over {self.probe.startup_seconds} s; "
            "see whether the volume of the weights answers"
        )

    def _no_token(self, state: State) -> str:
        silent = f", and neither reads nor writes for {self.probe.stuck_seconds} s"
        still = "" if state.moved is None else silent
        return (
            f"the engine generated no token within {self.probe.startup_seconds} s of start{still} "
            f"({state.last_miss or 'it was not asked'}); see its log, or allow it more time to load"
        )


def _preflight_failed(state: State, event: PreflightFailed, *, now: float) -> State:
    if state.phase is not Phase.STARTING:
        return state
    return enter(state, Phase.FAILED, event.reason, message=event.problem, now=now)


def _gathering(state: State, *, now: float) -> State:
    if state.phase is not Phase.STARTING:
        return state
    message = "the pod waits for the others of its group"
    return enter(state, Phase.STARTING, Reason.GATHERING, message=message, now=now)


def _engine_started(state: State, event: EngineStarted, *, now: float) -> State:
    if state.phase is not Phase.STARTING:
        return state
    running = dataclasses.replace(state, engine=EngineState.RUNNING)
    message = f"the engine runs as process {event.pid} and has not generated a token yet"
    return enter(running, Phase.LOADING, Reason.ENGINE_STARTED, message=message, now=now)


def _loads(state: State, event: Worked | Idle | Paused, *, now: float) -> State:
    if isinstance(event, Paused):
        return _paused(state, event)
    if state.phase is not Phase.LOADING:
        return state
    if isinstance(event, Worked):
        return dataclasses.replace(state, moved=now) if event.moved else state
    alone = event.pod is None
    whose = "its processes" if alone else f"the processes of pod {event.pod} of the group"
    others = "" if alone else ", and no other pod is at work"
    problem = (
        f"the engine stopped while it loads: for {event.seconds} s {whose} read nothing,"
        f" wrote nothing and computed nothing{others} ({state.last_miss or 'it was not asked'});"
        " see its log, and whether the volume of the weights answers"
    )
    return _give_up(state, Reason.STUCK, message=problem, now=now)


def _paused(state: State, event: Paused) -> State:
    """While nobody looked no token was missed, and no load stood still. The time to leave goes on:
    it is the kubelet's."""
    if state.phase is Phase.LOADING and state.moved is not None:
        return dataclasses.replace(state, moved=state.moved + event.seconds)
    if state.phase in {Phase.READY, Phase.STALLED} and state.missing_since is not None:
        return dataclasses.replace(state, missing_since=state.missing_since + event.seconds)
    return state


def _group_broken(state: State, why: str, *, now: float) -> State:
    """The engine is of no use without the others; while it drains, it may finish what it can."""
    if state.phase not in {Phase.LOADING, Phase.READY, Phase.STALLED}:
        return state
    return _give_up(state, Reason.GROUP_BROKEN, message=why, now=now)


def _leader_lost(state: State, *, now: float) -> str:
    silence = now - (state.since if state.last_token is None else state.last_token)
    return f"the leader of the group has not answered for {silence:.0f} s ({state.last_miss})"


def _wedged(state: State, *, now: float) -> str:
    silence = now - (state.since if state.last_token is None else state.last_token)
    return (
        f"the engine is wedged: it runs and generated no token for {silence:.0f} s "
        f"({state.last_miss})"
    )


def _give_up(state: State, reason: Reason, *, message: str, now: float) -> State:
    failed = enter(state, Phase.FAILED, reason, message=message, now=now)
    return ordered(failed, Order.TERMINATE, now=now)
