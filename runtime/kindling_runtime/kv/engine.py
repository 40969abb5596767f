"""The thread that does the tier's I/O, and the way to it.

The engine's scheduler tells it what it wants and never waits; what has come of it lies in
`outcomes`. All state of searches, loads and writes belongs to this thread.
"""

import asyncio
import contextlib
import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from kindling_runtime.contract import CacheStatus
from kindling_runtime.kv.bucket import StoreError
from kindling_runtime.kv.collecting import TURN_SECONDS, Collector
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.loading import Load, load
from kindling_runtime.kv.policy.admission import Admission, Sightings
from kindling_runtime.kv.policy.breaker import BreakerState
from kindling_runtime.kv.policy.search import Chain
from kindling_runtime.kv.searching import Found, Sought, search
from kindling_runtime.kv.standing import standing
from kindling_runtime.kv.storing import Store, Writer

_SWEEP_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 10.0
_log = logging.getLogger("vllm.kindling.kv")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request that the tier hears of for the first time; its chains are made by its thread."""

    request: str
    chains: Callable[[], tuple[Chain, ...]]


@dataclass(frozen=True, slots=True)
class Seek:
    """Look for a request's prompt, of which the engine has the first `have` tokens; the deadline
    counts from `begun`."""

    request: str
    have: int
    begun: float


@dataclass(frozen=True, slots=True)
class Computed:
    """The engine has computed so many tokens of one prompt in so many seconds."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that will store no more."""

    request: str


Order = Prompt | Seek | Load | Store | Computed | Finished
Outcome = Found | Load | Store


@dataclass(slots=True)
class _Noted:
    """What is kept of a request: which of its keys are worth a write (None: all), and the index of
    the last of them in each group."""

    chains: tuple[Chain, ...] = ()
    wanted: frozenset[bytes] | None = None
    last: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Engine:
    """One thread with an event loop. `prepare` makes its parts there; what it raises ends the
    thread, and is kept in `failure`."""

    prepare: Callable[[], Desk]
    tell: Callable[[CacheStatus], None] = lambda _: None
    """Gets how the tier stands whenever that has changed."""
    outcomes: deque[Outcome] = field(default_factory=deque)
    desk: Desk | None = None
    failure: BaseException | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _writer: Writer | None = None
    _noted: dict[str, _Noted] = field(default_factory=dict)
    _sightings: Sightings = field(default_factory=Sightings)
    _jobs: set[asyncio.Task[None]] = field(default_factory=set)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _told: CacheStatus | None = None
    _proving: asyncio.Task[None] | None = None
    collector: Collector | None = None

    def start(self) -> None:
        """Begin; returns once orders can be given. Raises what `prepare` raised."""
        begun = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(begun,), name="kindling-kv", daemon=True
        )
        self._thread.start()
        begun.wait()
        if self.failure is not None:
            raise self.failure

    def give(self, orders: list[Order]) -> None:
        """Order something; from any thread. After `stop` nothing happens."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._take, orders)

    def wait_idle(self, *, written: bool = False) -> None:
        """Wait until no row of the primary tier is in use and all outcomes are there; with
        `written`, until nothing is left to be sent either."""
        if self._loop is None or not self._alive:
            return
        asyncio.run_coroutine_threadsafe(self._idle(written), self._loop).result()

    def stop(self) -> None:
        """End the thread. Nothing touches the primary tier's memory afterwards."""
        if self._loop is not None and self._alive:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        if self._alive:
            raise RuntimeError(f"the KV tier's thread did not end within {_STOP_SECONDS:g} s")

    @property
    def has_ended(self) -> bool:
        """Whether its thread is gone: nothing is done any more."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, begun: threading.Event) -> None:
        try:
            asyncio.run(self._live(begun))
        except BaseException as error:
            self.failure = error
            _log.exception("the object tier of the KV cache has ended")
        finally:
            begun.set()

    async def _live(self, begun: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self.desk = desk = self.prepare()
        self._writer = writer = Writer(desk, self.outcomes.append)
        self.collector = Collector(desk)
        collecting = asyncio.create_task(_collect(self.collector))
        begun.set()
        try:
            self._stand(desk)
            while not self._stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SWEEP_SECONDS):
                        await self._stopped.wait()
                writer.sweep()
                self._stand(desk)
        finally:
            ending = {*self._jobs, collecting, *([self._proving] if self._proving else ())}
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await writer.close()
            desk.copiers.shutdown(wait=True)
            desk.rows.release()

    def _stand(self, desk: Desk) -> None:
        """Tell how the tier stands; ask a store that nobody asks, to know whether it is there."""
        status = standing(desk)
        if status != self._told:
            self._told = status
            self.tell(status)
        unheard = not desk.bucket.heard
        resting = desk.bucket.breaker.state(desk.clock()) is not BreakerState.CLOSED
        if (unheard or resting) and (self._proving is None or self._proving.done()):
            self._proving = asyncio.get_running_loop().create_task(_prove(desk))

    def _take(self, orders: list[Order]) -> None:
        for order in orders:
            match order:
                case Prompt():
                    self._note(order)
                case Seek():
                    self._begin(self._search(order))
                case Load():
                    self._begin(self._load(order))
                case Store():
                    self._store(order)
                case Computed():
                    self._of_desk().worth.computed(order.tokens, order.seconds)
                case Finished():
                    self._noted.pop(order.request, None)
                    self._of_writer().finish(order.request)

    def _note(self, prompt: Prompt) -> None:
        seen: frozenset[bytes] | None = None
        chains = prompt.chains()
        if self._of_desk().settings.admission is Admission.SECOND_USE:
            seen = self._sightings.see(key for chain in chains for key in chain.keys)
        last = {}
        for chain in chains:
            wanted = [i for i, key in enumerate(chain.keys) if seen is None or key in seen]
            if wanted:
                last[chain.group] = wanted[-1]
        self._noted[prompt.request] = _Noted(chains, seen, last)

    async def _search(self, order: Seek) -> None:
        chains = self._noted.get(order.request, _Noted()).chains
        sought = Sought(order.request, chains, order.have, order.begun)
        self.outcomes.append(await search(self._of_desk(), sought))

    async def _load(self, job: Load) -> None:
        await load(self._of_desk(), job)
        self.outcomes.append(job)

    def _store(self, job: Store) -> None:
        noted = self._noted.get(job.request, _Noted())
        self._of_writer().offer(job, wanted=noted.wanted, last=noted.last)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def _idle(self, written: bool) -> None:
        await asyncio.gather(self._of_writer().idle(written=written), *self._jobs)

    def _of_desk(self) -> Desk:
        assert self.desk is not None
        return self.desk

    def _of_writer(self) -> Writer:
        assert self._writer is not None
        return self._writer


async def _collect(collector: Collector) -> None:
    """For ever: a turn now and then, of pods that started together not at once."""
    while True:
        await asyncio.sleep(TURN_SECONDS * random.uniform(0.5, 1.5))
        with contextlib.suppress(StoreError):
            await collector.turn()


async def _prove(desk: Desk) -> None:
    """One question, whose answer the bucket remembers."""
    with contextlib.suppress(StoreError):
        await desk.bucket.size(f"{desk.place.home}/_here", seconds=desk.settings.deadlines.load)
