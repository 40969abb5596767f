"""When a request of our own is sent, and how soon an engine is found that gives nobody a token: the
watch and the state machine over engines that live in a time of their own."""

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import cast

import pytest
from tests.support.histories import DRAIN

from kindling_runtime import watch
from kindling_runtime.contract import EvidenceSource, Phase, Probe
from kindling_runtime.evidence import Reading, Signs
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.probe import Prober
from kindling_runtime.state import EngineStarted, Event, Miss, Signal, State, Token

OPERATORS = Probe(startup_seconds=600, token_seconds=10, interval_seconds=5, wedged_seconds=60)
LONG = Probe(startup_seconds=600, token_seconds=30, interval_seconds=15, wedged_seconds=120)

BEGUN = 0.5
"""When the time of the first interval begins: after the first token and the pause that follows."""

Tells = Callable[[float], Reading | None]
"""What an engine's counters say at a time; None when they are not told."""


class Engine:
    """An engine, its time, and what is seen of it until `end`."""

    def __init__(
        self, tells: Tells, *, answers: Callable[[float], bool], limits: Probe, end: float
    ) -> None:
        self.now = 0.0
        self.canaries: list[float] = []
        self.seen: list[tuple[float, Event]] = []
        self.unready: float | None = None
        self.failed: float | None = None
        self._tells, self._answers, self._limits, self._end = tells, answers, limits, end
        self._life = Lifecycle(probe=limits, drain=DRAIN, started=0.0)
        self._state = self._life.begin()

    def state(self) -> State:
        return self._state

    def happened(self, event: Event) -> None:
        self.seen.append((self.now, event))
        self._advance(event)

    def _advance(self, event: Event) -> None:
        self._state = self._life.advance(self._state, event, now=self.now)
        if self._state.phase is Phase.STALLED and self.unready is None:
            self.unready = self.now
        if self._state.phase is Phase.FAILED and self.failed is None:
            self.failed = self.now

    async def counters(self, *, within: float = 5.0) -> Reading | None:
        found = self._tells(self.now)
        if found is None:
            await self.sleep(min(5, within, self._limits.token_seconds))
        return found

    async def generate(self) -> Event:
        self.canaries.append(self.now)
        if self._answers(self.now):
            return Token(EvidenceSource.CANARY)
        await self.sleep(self._limits.token_seconds)
        return Miss("it did not answer")

    async def sleep(self, seconds: float) -> None:
        end = self.now + max(0.0, seconds)
        deadline = self._life.deadline(self._state)
        if deadline is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self._advance(Signal.TICK)
        self.now = end
        if self.now >= self._end or self.failed is not None:
            raise EOFError

    async def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asyncio, "sleep", self.sleep)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self._advance(EngineStarted(7))
        watching = watch.TokenWatch(cast(Prober, self), self._limits)
        with pytest.raises(EOFError):
            await watching.run(state=self.state, happened=self.happened)


async def lived(
    monkeypatch: pytest.MonkeyPatch,
    tells: Tells,
    *,
    answers: Callable[[float], bool] = lambda _: True,
    limits: Probe = OPERATORS,
    end: float = 300.0,
) -> Engine:
    engine = Engine(tells, answers=answers, limits=limits, end=end)
    with monkeypatch.context() as patched:
        await engine.run(patched)
    return engine


def serves(every: float, *, requests: int = 4, since: float = 0.0) -> Callable[[float], Signs]:
    """An engine whose requests get a token `every` so many seconds."""
    return lambda now: Signs(max(0.0, now - since) // every, 0.5, requests)


def hangs(at: float, engine: Callable[[float], Signs]) -> Callable[[float], Signs]:
    return lambda now: engine(min(now, at))


def ranks(*engines: Callable[[float], Signs]) -> Tells:
    return lambda now: {str(number): each(now) for number, each in enumerate(engines)}


def idle(_: float) -> Signs:
    return Signs(3.0, 0.0, 0)


FAST, SLOW = serves(0.1), serves(8.0)


@pytest.mark.parametrize("limits", [OPERATORS, LONG], ids=["operator", "default"])
@pytest.mark.parametrize("beside", [FAST, SLOW, idle], ids=["fast", "slow", "idle"])
@pytest.mark.parametrize("at", [20.0, 21.5, 23.0, 24.9, 29.0, 33.3])
async def test_a_rank_that_hangs_beside_another_is_found_within_the_bound(
    limits: Probe, beside: Callable[[float], Signs], at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await lived(monkeypatch, ranks(beside, hangs(at, FAST)), limits=limits, end=900)

    assert engine.unready is not None
    assert engine.failed is not None
    each = limits.token_seconds + 6
    assert engine.unready - at <= limits.interval_seconds + 6 + limits.unready_failures * each
    first = next(now for now, event in engine.seen if isinstance(event, Miss))
    assert engine.failed - first == limits.wedged_seconds
    assert len(engine.canaries) == 1  # the first token


@pytest.mark.parametrize("limits", [OPERATORS, LONG], ids=["operator", "default"])
@pytest.mark.parametrize("tells", [True, False], ids=["its server tells", "nothing answers"])
@pytest.mark.parametrize("at", [20.0, 24.9, 26.1, 31.0])
async def test_an_idle_engine_that_hangs_is_found_within_the_bound(
    limits: Probe, tells: bool, at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await lived(
        monkeypatch,
        lambda now: {"0": idle(now)} if tells or now < at else None,
        answers=lambda now: now < at,
        limits=limits,
        end=900,
    )

    assert engine.unready is not None
    each = limits.token_seconds + 6
    assert engine.unready - at <= limits.interval_seconds + 6 + limits.unready_failures * each


async def test_who_is_silent_is_told_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await lived(monkeypatch, ranks(FAST, hangs(20, serves(0.1, requests=20))))
    misses = {event.why for _, event in engine.seen if isinstance(event, Miss)}
    assert misses == {"engine 1 has 20 requests and none got a token for 10 s"}

    engine = await lived(monkeypatch, lambda now: {"": hangs(20, serves(1, requests=1))(now)})
    misses = {event.why for _, event in engine.seen if isinstance(event, Miss)}
    assert misses == {"the engine has a request and it got no token for 10 s"}


async def test_a_server_that_stops_to_tell_during_a_look_is_not_said_to_have_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck = hangs(20, FAST)
    engine = await lived(monkeypatch, lambda now: None if now > 26 else {"0": stuck(now)}, end=40)
    why = "engine 0 has 4 requests and did not tell whether a token came for 10 s"
    assert Miss(why) in [event for _, event in engine.seen]


@pytest.mark.parametrize("every", [0.1, 3.0, 9.0])
async def test_a_busy_engine_is_sent_nothing_however_slow_it_is(
    every: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await lived(monkeypatch, ranks(serves(every), idle))

    assert len(engine.canaries) == 1
    assert not [event for _, event in engine.seen if isinstance(event, Miss)]


async def test_one_that_is_slower_than_the_deadline_but_moves_is_not_made_unready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looks are a second apart after a miss, and each has its whole time."""
    engine = await lived(monkeypatch, ranks(serves(15.0)), end=600)

    assert [event for _, event in engine.seen if isinstance(event, Miss)]
    assert engine.unready is None
    assert len(engine.canaries) == 1


async def test_an_engine_that_stands_still_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await lived(monkeypatch, ranks(idle, idle), end=62)

    assert len(engine.canaries) == 1 + 60 // OPERATORS.interval_seconds
    assert {event for _, event in engine.seen} == {Token(EvidenceSource.CANARY)}


async def test_tokens_of_clients_who_are_gone_again_save_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = await lived(monkeypatch, ranks(serves(1.0, requests=0)), end=62)

    assert len(engine.canaries) == 1
    assert {event for _, event in engine.seen[1:]} == {Token(EvidenceSource.COUNTERS)}


async def test_our_own_token_is_not_taken_for_a_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Engine] = []

    def tells(_: float) -> Reading:
        return {"0": Signs(float(len(made[0].canaries)), 0.0, 0)}

    engine = Engine(tells, answers=lambda _: True, limits=OPERATORS, end=62)
    made.append(engine)
    with monkeypatch.context() as patched:
        await engine.run(patched)
    assert {event for _, event in engine.seen} == {Token(EvidenceSource.CANARY)}


async def test_a_request_that_left_without_a_token_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nothing runs any more the engine has to answer."""
    engine = await lived(
        monkeypatch, lambda now: {"0": Signs(3, 0.5, 7.5 < now < 12.5)}, answers=lambda n: n < 10
    )
    assert engine.canaries[1] == pytest.approx(BEGUN + 5)
    assert 12.5 <= engine.canaries[2] < 14
    assert engine.failed is not None


async def test_a_long_prompt_is_work_while_the_cache_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await lived(monkeypatch, lambda now: {"0": Signs(3, now / 300, 1)}, end=290)

    assert len(engine.canaries) == 1
    assert not [event for _, event in engine.seen if isinstance(event, Miss)]


async def test_a_cache_that_only_jitters_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = itertools.cycle((0.5, 0.7, 0.6, 0.55))
    engine = await lived(monkeypatch, lambda _: {"0": Signs(3, next(shares), 1)})

    assert engine.failed is not None
    assert engine.failed <= 5 + 2 * (10 + 6) + 60


async def test_a_server_that_is_late_to_tell_is_asked_again_and_sent_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = itertools.cycle((False, True))
    engine = await lived(
        monkeypatch, lambda now: None if now > 1 and next(late) else {"0": FAST(now)}, end=100
    )
    assert len(engine.canaries) == 1
    assert not [event for _, event in engine.seen if isinstance(event, Miss)]


async def test_one_that_does_not_tell_twice_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await lived(monkeypatch, lambda now: None if now > 1 else {"0": FAST(now)}, end=50)
    # After an interval, two questions of 5 s and a second between them.
    assert engine.canaries[1] == pytest.approx(BEGUN + 5 + 5 + 1 + 5)
