"""The scheduler's side of the tier, whatever the engine that has the scheduler.

Nothing here waits or does I/O: an answer is known, or "ask again", until the deadline of a search
makes it a miss. Every job that was taken is told of once, also when the tier's thread has ended.
"""

import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kindling_runtime.kv.engine import Computed, Engine, Finished, Order, Prompt, Seek
from kindling_runtime.kv.loading import Load
from kindling_runtime.kv.policy.breaker import BreakerState
from kindling_runtime.kv.policy.chains import Chunk
from kindling_runtime.kv.policy.reads import Wanted
from kindling_runtime.kv.policy.search import Chain, Source
from kindling_runtime.kv.searching import Found
from kindling_runtime.kv.storing import Store

Positions = Callable[[], Iterable[tuple[bytes, int]]]
"""All chunks of a request as the engine knows them: key, and the token at which it ends."""


class Answer(enum.Enum):
    """Whether the store has a chunk."""

    HIT = enum.auto()
    MISS = enum.auto()
    LATER = enum.auto()


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a group's chunks: tokens in each, and the window in chunks, None without."""

    tokens: int
    window: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that is over. `done` are the keys that it has loaded, None for a job that stores."""

    job: int
    success: bool
    done: frozenset[bytes] | None
    chunks: int
    seconds: float


@dataclass(slots=True)
class _Request:
    """What is known of a request; `sources` once a search has ended, `begun` when it began."""

    sources: dict[bytes, Source] | None = None
    begun: float | None = None
    reached: int = 0
    """The token up to which chunks were offered, at `reached_at`."""
    reached_at: float = 0.0


@dataclass(slots=True)
class Front:
    """`shapes` are those of the groups by their number. Without an engine everything is a miss."""

    engine: Engine | None
    shapes: Mapping[int, Shape]
    search_seconds: float
    clock: Callable[[], float] = time.monotonic
    _requests: dict[str, _Request] = field(default_factory=dict)
    _jobs: dict[int, Load | Store] = field(default_factory=dict)
    _ended: list[Ended] = field(default_factory=list)
    _orders: list[Order] = field(default_factory=list)

    def lookup(self, request: str, key: bytes, end: int, positions: Positions) -> Answer:
        """Whether the store has the chunk of a request that ends at that token."""
        if not self._is_open():
            return Answer.MISS
        self._drain()
        state = self._known(request, positions)
        if state.begun is None:
            state.begun = self.clock()
            have = max(0, end - self._tokens(key))
            self._orders.append(Seek(request, have, state.begun))
        if state.sources is None:
            if self.clock() - state.begun <= self.search_seconds:
                return Answer.LATER
            state.sources = {}  # what is found later comes too late
        return Answer.HIT if key in state.sources else Answer.MISS

    def load(self, job: int, request: str, keys: Sequence[bytes], slots: Sequence[int]) -> None:
        """Bring chunks for which the answer was a hit to rows of the primary tier."""
        sources = self._requests.get(request, _Request()).sources or {}
        wanted = tuple(
            Wanted(key, int(slot), place, _group(key), at.anchor, at.back)
            for place, (key, slot) in enumerate(zip(keys, slots, strict=True))
            if (at := sources.get(key)) is not None
        )
        begun = Load(job, request, len(keys), wanted, self.clock())
        self._begin(begun)

    def store(
        self,
        job: int,
        request: str,
        chunks: Sequence[tuple[bytes, int, int | None]],
        positions: Positions,
    ) -> None:
        """Offer chunks: key, row of the primary tier, token at which it ends (None: unknown)."""
        groups: dict[int, list[Chunk]] = {}
        for key, slot, end in chunks:
            tokens = self._tokens(key)
            if end is not None and tokens and end % tokens == 0:
                chunk = Chunk(key, end // tokens - 1, slot)
                groups.setdefault(_group(key), []).append(chunk)
        now = self.clock()
        if self.engine is not None:
            state = self._known(request, positions)
            self._learn(state, max((end or 0 for _, _, end in chunks), default=0), now)
        self._begin(Store(job, request, groups, now))

    def finished(self, request: str) -> None:
        """A request stores no more, and asks for nothing."""
        if self._requests.pop(request, None) is not None:
            self._orders.append(Finished(request))

    def step(self) -> None:
        """The end of a step: give the thread what was collected."""
        self._drain()
        if self._orders and self.engine is not None:
            orders, self._orders = self._orders, []
            self.engine.give(orders)

    def ended(self) -> list[Ended]:
        """Jobs that are over, each once."""
        self._drain()
        if self._jobs and (self.engine is None or self.engine.has_ended):
            # Its thread is gone: nothing touches their rows any more.
            for job in tuple(self._jobs.values()):
                self._end(job, set(), success=False)
        over, self._ended = self._ended, []
        return over

    def wait_idle(self) -> None:
        """Wait until no job's rows are touched; all of them are among the next `ended`."""
        self.step()
        if self.engine is not None:
            self.engine.wait_idle()

    def stop(self) -> None:
        """End the thread."""
        if self.engine is not None:
            self.engine.stop()

    def _is_open(self) -> bool:
        engine = self.engine
        if engine is None or engine.has_ended or engine.desk is None:
            return False
        return engine.desk.bucket.breaker.state(self.clock()) is BreakerState.CLOSED

    def _begin(self, job: Load | Store) -> None:
        self._jobs[job.job] = job
        self._orders.append(job)
        self.step()

    def _known(self, request: str, positions: Positions) -> _Request:
        state = self._requests.get(request)
        if state is None:
            state = self._requests[request] = _Request()
            self._orders.append(Prompt(request, self._chains(positions)))
        return state

    def _chains(self, positions: Positions) -> Callable[[], tuple[Chain, ...]]:
        """How the tier's thread makes chains of a request: here it would take the scheduler's
        time."""
        told, shapes = tuple(positions()), self.shapes
        return lambda: chains_of(told, shapes)

    def _learn(self, state: _Request, reached: int, now: float) -> None:
        """How quick the engine computes: what it has done between two steps of one prompt."""
        if state.reached and reached > state.reached:
            tokens, seconds = reached - state.reached, now - state.reached_at
            self._orders.append(Computed(tokens, seconds))
        state.reached, state.reached_at = max(reached, state.reached), now

    def _drain(self) -> None:
        if self.engine is None:
            return
        outcomes = self.engine.outcomes
        while outcomes:
            match outcomes.popleft():
                case Found(request, sources):
                    state = self._requests.get(request)
                    if state is not None and state.sources is None:
                        state.sources = dict(sources)
                case Load() as load:
                    self._end(load, load.done, success=len(load.done) == load.asked)
                case Store() as store:
                    self._end(store, set(), success=not store.dropped)

    def _end(self, job: Load | Store, done: set[bytes], *, success: bool) -> None:
        if self._jobs.pop(job.job, None) is None:
            return
        seconds = self.clock() - job.begun
        if isinstance(job, Store):
            count = sum(len(chunks) for chunks in job.chunks.values())
            self._ended.append(Ended(job.job, success, None, count, seconds))
            return
        # Asked again, the request would find them in the store and fail again.
        state = self._requests.get(job.request)
        for each in job.wanted:
            if each.key not in done and state is not None and state.sources is not None:
                state.sources.pop(each.key, None)
        self._ended.append(Ended(job.job, success, frozenset(done), len(done), seconds))

    def _tokens(self, key: bytes) -> int:
        shape = self.shapes.get(_group(key))
        return shape.tokens if shape is not None else 0


def chains_of(
    positions: Iterable[tuple[bytes, int]], shapes: Mapping[int, Shape]
) -> tuple[Chain, ...]:
    """The chunks of a request by group, from its beginning to the first that is not told."""
    groups: dict[int, dict[int, bytes]] = {}
    for key, end in positions:
        shape = shapes.get(_group(key))
        if shape is not None and end % shape.tokens == 0:
            groups.setdefault(_group(key), {})[end // shape.tokens - 1] = key
    found = []
    for group, keys in sorted(groups.items()):
        row: list[bytes] = []
        while len(row) in keys:
            row.append(keys[len(row)])
        if row:
            shape = shapes[group]
            found.append(Chain(group, shape.tokens, tuple(row), shape.window))
    return tuple(found)


def _group(key: bytes) -> int:
    return int.from_bytes(key[-4:], "big")
