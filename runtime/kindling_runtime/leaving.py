"""How a pod leaves, step by step: a part of the state machine, pure like `lifecycle`.

With a front: endpoints let go, new requests are refused and running streams finish, and only then
the engine is told to stop. Without: after the time for endpoints the engine is told to stop and
finishes what it has by itself (`--shutdown-timeout`).

    Endpoints ─► Streams ─► Exit ─► Kill
"""

import dataclasses

from kindling_runtime.contract import (
    CUT_SECONDS,
    KILL_SECONDS,
    Drain,
    DrainStep,
    Front,
    Phase,
    Reason,
)
from kindling_runtime.foreign import printable
from kindling_runtime.state import EngineExited, Order, Requests, State

UNHEARD_SECONDS = 5
"""For an engine to exit that has served nobody."""
BEFORE_STREAMS = frozenset({DrainStep.ENDPOINTS, DrainStep.LEADER})


@dataclasses.dataclass(frozen=True, slots=True)
class Leaving:
    """The rules. `front` is None where nothing stands before the engine's routes; `follows` tells
    that the engine answers no requests."""

    drain: Drain
    front: Front | None = None
    follows: bool = False

    def begin(self, state: State, step: DrainStep, *, now: float) -> State:
        """The state with `step` begun."""
        since = state.since if state.phase is Phase.DRAINING else now
        return dataclasses.replace(
            state,
            phase=Phase.DRAINING,
            reason=Reason.TERMINATION_REQUESTED,
            message=self._announced(state, step),
            since=since,
            order=max(state.order, self._order(state, step)),
            step=step,
            step_since=now,
        )

    def counted(self, state: State, seen: Requests | None, *, now: float) -> State:
        """After a look at what runs; None where nobody tells."""
        if state.phase is not Phase.DRAINING or self.front is None:
            return state
        if seen is None:
            return self._alone(state, now=now)
        # What runs when all is to be cut is cut, whether its server still can say so or not; what
        # a client has not taken then may be lost with the engine.
        lost = seen.active + seen.untaken if state.order >= Order.CUT else 0
        after = dataclasses.replace(state, cut=seen.cut + lost, left=seen.left)
        if state.step is DrainStep.ENDPOINTS:
            settled = now - state.step_since >= self.front.settle_seconds
            let_go = settled and seen.quiet_seconds >= self.front.quiet_seconds
            return self.begin(after, DrainStep.STREAMS, now=now) if let_go else after
        if state.step is not DrainStep.STREAMS or state.order >= Order.TERMINATE:
            return after
        running = seen.active + seen.untaken
        if state.running is None:
            after = dataclasses.replace(
                after,
                running=running,
                message=f"new requests are refused, and {running} that run have "
                f"{self.drain.stream_seconds} s to finish",
            )
        late = state.order is Order.CUT  # nobody is waited for any more who only takes an answer
        busy = seen.active if late else running
        return after if busy else self.begin(after, DrainStep.EXIT, now=now)

    def _alone(self, state: State, *, now: float) -> State:
        """The engine is told to stop and finishes by itself what it has, as without a front."""
        if state.step is not DrainStep.STREAMS or state.order >= Order.TERMINATE:
            return state
        return ordered(state, Order.TERMINATE, now=now)

    def overdue(self, state: State, *, now: float) -> State:
        """After the time of the present step."""
        if state.step in BEFORE_STREAMS:
            return self.begin(state, DrainStep.STREAMS, now=now)
        if state.step is DrainStep.STREAMS and state.order < Order.CUT:
            seconds = self.drain.stream_seconds
            late = f"requests that ran longer than {seconds} s are cut"
            cut = dataclasses.replace(state, message=late, cut_after=seconds)
            return ordered(cut, Order.CUT, now=now)
        if state.step is DrainStep.STREAMS and state.order is Order.CUT:
            return self.begin(state, DrainStep.EXIT, now=now)
        if state.step is not DrainStep.KILL:
            killed = dataclasses.replace(
                state,
                step=DrainStep.KILL,
                message=f"the engine still ran {now - state.step_since:.0f} s after SIGTERM "
                "and is killed",
            )
            return ordered(killed, Order.KILL, now=now)
        left = ordered(state, Order.LEAVE, now=now)
        if state.first_token is None:
            return stopped_while_loading(left, now=now)
        return self._overran(left, now=now)

    def exited(self, gone: State, event: EngineExited, *, now: float) -> State:
        """After the end of the engine."""
        if gone.first_token is None:
            return stopped_while_loading(gone, now=now)
        if gone.step is DrainStep.KILL:
            return self._overran(gone, now=now)
        if self.follows:
            message = "the engine ended after its leader's, or with it"
            return enter(gone, Phase.STOPPED, Reason.DRAINED, message=message, now=now)
        if gone.step is DrainStep.EXIT:
            # Nothing ran any more, so that its end harms nobody, whatever it was; a vLLM that
            # stops may find its own engine core dead (seen with 0.32 on CPU).
            seconds = now - gone.step_since
            how = f"ended cleanly {seconds:.1f} s after SIGTERM" if event.clean else event.how
            message = f"{_outcome(gone)}; the engine {how}"
            reason = Reason.DRAIN_DEADLINE_EXCEEDED if gone.cut else Reason.DRAINED
            return enter(gone, Phase.STOPPED, reason, message=message, now=now)
        alone = gone.step is DrainStep.STREAMS and gone.order >= Order.TERMINATE
        if alone and event.clean:
            message = self._drained(now - gone.step_since)
            return enter(gone, Phase.STOPPED, Reason.DRAINED, message=message, now=now)
        if alone or self.front is None:
            message = f"running streams were cut, because the engine {event.how}"
        else:
            link = "because" if gone.cut else "but"
            message = f"{_outcome(gone)}, {link} the engine {event.how}"
        return enter(gone, Phase.FAILED, Reason.ENGINE_EXITED, message=message, now=now)

    def step_seconds(self, state: State) -> int:
        """How long the present step may last."""
        drain, step = self.drain, state.step
        if state.order >= Order.KILL:
            return KILL_SECONDS
        if state.phase is not Phase.FAILED and state.first_token is None:
            # Nothing is lost with it, and while its core loads vLLM does not heed SIGTERM.
            return min(drain.grace_seconds, UNHEARD_SECONDS)
        if state.phase is Phase.FAILED or step is DrainStep.EXIT:
            return drain.grace_seconds
        match step:
            case DrainStep.ENDPOINTS:
                seconds = drain.endpoint_seconds
            case DrainStep.LEADER:
                # By then the leader's streams are over, or were cut.
                seconds = drain.endpoint_seconds + drain.stream_seconds
            case _ if self.follows:
                seconds = drain.grace_seconds
            case _ if state.order is Order.CUT:
                seconds = CUT_SECONDS
            case _ if state.order < Order.CUT:
                seconds = drain.stream_seconds
            case _:
                seconds = drain.stream_seconds + drain.grace_seconds
        return seconds

    def _order(self, state: State, step: DrainStep) -> Order:
        if step is DrainStep.LEADER:
            return Order.RUN
        if step is DrainStep.ENDPOINTS:
            return Order.RUN if self.front is None else Order.CLOSE
        fronted = self.front is not None and not self.follows and state.first_token is not None
        return Order.REFUSE if fronted and step is DrainStep.STREAMS else Order.TERMINATE

    def _announced(self, state: State, step: DrainStep) -> str:
        if step is DrainStep.LEADER:
            return "the leader finishes its streams first"
        if step is DrainStep.ENDPOINTS:
            return f"endpoints have {self.drain.endpoint_seconds} s to let go of the pod"
        if step is DrainStep.EXIT:
            grace = self.drain.grace_seconds
            return f"{_outcome(state)}; the engine has {grace} s to exit"
        if state.first_token is None:
            return "the engine is stopped before it served anything"
        return f"running streams have {self.drain.stream_seconds} s to finish"

    def _drained(self, seconds: float) -> str:
        allowed = self.drain.stream_seconds
        if seconds <= allowed:
            return f"the engine ended cleanly {seconds:.1f} s after SIGTERM, within its {allowed} s"
        # vLLM exits with 0 also when it aborts what is left, and takes seconds to exit.
        return (
            f"the engine ended cleanly {seconds:.1f} s after SIGTERM; "
            f"streams that needed more than {allowed} s were cut"
        )

    def _overran(self, state: State, *, now: float) -> State:
        if state.running is None:
            allowed = self.drain.stream_seconds + self.drain.grace_seconds
            message = (
                f"the engine still ran {allowed} s after SIGTERM and was killed, so running "
                "streams were cut; allow a longer drain"
            )
            return enter(
                state, Phase.FAILED, Reason.DRAIN_DEADLINE_EXCEEDED, message=message, now=now
            )
        message = (
            f"{_outcome(state)}; the engine still ran {self.drain.grace_seconds} s after SIGTERM "
            "and was killed"
        )
        if state.cut:
            return enter(
                state, Phase.FAILED, Reason.DRAIN_DEADLINE_EXCEEDED, message=message, now=now
            )
        return enter(state, Phase.STOPPED, Reason.DRAINED, message=message, now=now)


def enter(state: State, phase: Phase, reason: Reason, *, message: str, now: float) -> State:
    """The state in another phase; `message` may quote what others wrote."""
    told = printable(message)
    return dataclasses.replace(state, phase=phase, reason=reason, message=told, since=now)


def ordered(state: State, order: Order, *, now: float) -> State:
    """The state with an order given, whose time begins."""
    return dataclasses.replace(state, order=max(order, state.order), step_since=now)


def stopped_while_loading(state: State, *, now: float) -> State:
    """The end of a pod that served nobody."""
    message = "the pod was told to stop before the first token, so nothing was cut"
    return enter(state, Phase.STOPPED, Reason.STOPPED_WHILE_LOADING, message=message, now=now)


def _outcome(state: State) -> str:
    """What became of the requests that ran when new ones were refused."""
    running = state.running or 0
    if state.cut:
        after = f" after {state.cut_after} s" if state.cut_after is not None else ""
        return f"{state.cut} of {max(running, state.cut)} running requests were cut{after}"
    if left := min(state.left, running):
        went = "1 client" if left == 1 else f"{left} clients"
        return f"{running - left} of {running} running requests finished, and {went} went before"
    return f"all {running} running requests finished" if running else "no request was running"
