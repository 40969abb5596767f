"""A server that takes connections and answers nothing, as one that is stopped (SIGSTOP): how long a
look at it takes, over a real socket and on a clock that skips the waits."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.support.engine.skipping import SkippingLoop
from tests.support.histories import DRAIN

from kindling_runtime.contract import EvidenceSource, Phase, Probe
from kindling_runtime.lifecycle import Lifecycle
from kindling_runtime.probe import Prober
from kindling_runtime.state import EngineStarted, Event, Miss, State, Token
from kindling_runtime.watch import TokenWatch

OPERATORS = Probe(startup_seconds=600, token_seconds=10, interval_seconds=5, wedged_seconds=60)
FRACTIONS = (100.0, 100.01, 100.3, 100.9)
"""What the clock shows first: nothing may depend on when a second is full."""


@pytest.fixture
def stopped() -> Iterator[int]:
    """The port of such a server."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def lasts(port: int, begins: float, ask: Callable[[Prober], Awaitable[object]]) -> float:
    """The seconds that a question takes."""

    async def timed() -> float:
        prober = Prober(port=port, model="tiny", limits=OPERATORS)
        begun = asyncio.get_running_loop().time()
        try:
            await ask(prober)
        finally:
            ended = asyncio.get_running_loop().time()
            await prober.close()
        return ended - begun

    with asyncio.Runner(loop_factory=lambda: SkippingLoop(begins=begins)) as runner:
        return runner.run(timed())


@pytest.mark.parametrize("begins", FRACTIONS)
def test_a_question_ends_in_its_time_and_not_with_a_full_second(
    stopped: int, begins: float
) -> None:
    assert lasts(stopped, begins, Prober.counters) == pytest.approx(5, abs=0.01)
    assert lasts(stopped, begins, Prober.generate) == pytest.approx(10, abs=0.01)


@pytest.mark.parametrize("begins", FRACTIONS)
def test_it_loses_readiness_in_the_time_that_the_documents_promise(
    stopped: int, begins: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two looks, of 21 and 16 s, after an interval of 5 s; docs/runtime.md allows one more."""
    misses: list[tuple[float, str]] = []

    async def live() -> float:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(time, "monotonic", loop.time)
        life = Lifecycle(probe=OPERATORS, drain=DRAIN, started=loop.time())
        state = _serving(life, now=loop.time())
        unready = asyncio.Event()

        def happened(event: Event) -> None:
            nonlocal state
            assert isinstance(event, Miss)
            misses.append((loop.time() - begins, event.why))
            state = life.advance(state, event, now=loop.time())
            if state.phase is Phase.STALLED:
                unready.set()

        prober = Prober(port=stopped, model="tiny", limits=OPERATORS)
        watching = asyncio.create_task(
            TokenWatch(prober, OPERATORS).run(state=lambda: state, happened=happened)
        )
        await unready.wait()
        watching.cancel()
        await prober.close()
        return loop.time() - begins

    with asyncio.Runner(loop_factory=lambda: SkippingLoop(begins=begins)) as runner:
        took = runner.run(live())
    assert [at for at, _ in misses] == pytest.approx([26, 42], abs=0.05)
    assert {why for _, why in misses} == {"it did not answer a one-token request within 10 s"}
    assert took <= 5 + 6 + 2 * (10 + 6)


def _serving(life: Lifecycle, *, now: float) -> State:
    state = life.advance(life.begin(), EngineStarted(7), now=now)
    state = life.advance(state, Token(EvidenceSource.CANARY), now=now)
    assert state.phase is Phase.READY
    return state
