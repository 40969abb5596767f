"""The tier under anything that an engine and a store may do, in any order.

Every job is told of once; memory that was given back is neither read nor written; what is restored
is what was stored, whatever became of objects meanwhile.
"""

import itertools
import time
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from obstore.store import MemoryStore
from tests.support.examples import examples
from tests.support.kv.backends import Gated
from tests.support.kv.pods import PLACE, content, settings_for
from tests.support.kv.prompts import keys_of

from kindling_runtime.kv.bucket import Bucket
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.engine import Engine
from kindling_runtime.kv.front import Answer, Ended, Front, Shape
from kindling_runtime.kv.policy.breaker import Breaker
from kindling_runtime.kv.policy.layout import Layout
from kindling_runtime.kv.rows import Bytes, Rows

CHUNK, ROWS, LENGTH, TOKENS = 512, 48, 8, 16
SHAPES = {0: Shape(TOKENS, None), 1: Shape(TOKENS, 2)}
numbers = st.integers(0, 1 << 16)
QUICK = {"search": 0.05, "load": 0.1, "store": 0.1, "hold": 0.05}


class SlowRows(Rows):
    """Copies take so long that a row which was given back too early has another content."""

    def copied(self, slots: Sequence[int]) -> list[Bytes]:
        time.sleep(0.003)
        return super().copied(slots)


class Tier(RuleBasedStateMachine):
    """An engine's scheduler with a host memory of few rows, a store, and whoever damages it."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.bucket = Gated(self.store, Breaker(failures=3, first=0.01, longest=0.05))
        self.memory = np.zeros((ROWS, CHUNK), np.uint8)
        self.free = list(range(ROWS))
        self.scribbled = self.memory.copy()
        self.requests: dict[str, list[list[bytes]]] = {}
        self.stores: dict[int, dict[bytes, int]] = {}
        self.loads: dict[int, dict[bytes, int]] = {}
        self.numbers = itertools.count(1)
        self.over: set[int] = set()

    @initialize(slots=st.integers(1, 4), admission=st.sampled_from(["Always", "SecondUse"]))
    def start(self, slots: int, admission: str) -> None:
        self.layout = Layout(slots, CHUNK)
        self.engine = Engine(lambda: self._desk(self.bucket, self.memory, admission))
        self.engine.start()
        self.front = Front(self.engine, SHAPES, QUICK["search"])

    @rule(prompt=st.sampled_from("ab"), until=st.integers(0, LENGTH), length=st.integers(1, LENGTH))
    def begin(self, prompt: str, until: int, length: int) -> None:
        name = f"r{next(self.numbers)}"
        self.requests[name] = [
            keys_of(prompt, length, group=group, shared="a", until=until) for group in SHAPES
        ]

    @precondition(lambda self: self.requests)
    @rule(which=numbers, first=st.integers(0, LENGTH - 1), load=st.booleans())
    def look_up_and_load(self, which: int, first: int, load: bool) -> None:
        name = self._request(which)
        groups = self.requests[name]
        hits = list(self._hits(name, groups[0][first:])) + list(self._hits(name, groups[1][::-1]))
        self.front.step()
        hits = hits[: len(self.free)]
        if hits and load:
            rows = {key: self.free.pop() for key in hits}
            job = next(self.numbers)
            self.loads[job] = rows
            self.front.load(job, name, list(rows), list(rows.values()))

    @precondition(lambda self: self.requests)
    @rule(which=numbers, begin=st.integers(0, LENGTH), count=st.integers(0, LENGTH))
    def offer(self, which: int, begin: int, count: int) -> None:
        name = self._request(which)
        self._offer(
            name, [key for group in self.requests[name] for key in group[begin : begin + count]]
        )

    def _request(self, which: int) -> str:
        # What is drawn must not depend on how quick a store was.
        return sorted(self.requests)[which % len(self.requests)]

    def _offer(self, name: str, keys: Sequence[bytes]) -> None:
        rows = {key: self.free.pop() for key in keys[: len(self.free)]}
        for key, row in rows.items():
            self.memory[row] = content(key, CHUNK)
        job = next(self.numbers)
        self.stores[job] = rows
        ends = dict(self._positions(name))
        chunks = [(key, row, ends[key]) for key, row in rows.items()]
        self.front.store(job, name, chunks, lambda: self._positions(name))

    @rule(prompt=st.sampled_from("ab"))
    def store_whole(self, prompt: str) -> None:
        """A prompt that was asked for twice."""
        for _ in range(2):
            name = f"r{next(self.numbers)}"
            groups = [keys_of(prompt, LENGTH, group=group) for group in SHAPES]
            self.requests[name] = groups
            if len(self.free) >= 2 * LENGTH:
                self._offer(name, [key for group in groups for key in group])

    @precondition(lambda self: self.requests)
    @rule(which=numbers)
    def finish(self, which: int) -> None:
        name = self._request(which)
        del self.requests[name]
        self.front.finished(name)
        self.front.step()

    @rule()
    def collect(self) -> None:
        for each in self.front.ended():
            self._over(each)

    @rule()
    def drain(self) -> None:
        self.front.wait_idle()
        self.collect()
        assert not self.stores
        assert not self.loads

    @rule(shut=st.sampled_from([False, False, True]))
    def hang(self, shut: bool) -> None:
        self.bucket.shut = shut

    @rule(
        which=numbers,
        at=numbers,
        change=st.integers(1, 255),
        what=st.sampled_from(["delete", "change", "change", "cut", "empty"]),
    )
    def damage(self, which: int, at: int, change: int, what: str) -> None:
        self.engine.wait_idle(written=True)
        names = [each["path"] for page in self.store.list() for each in page]
        if not names:
            return
        name = sorted(names)[which % len(names)]
        whole = bytearray(bytes(self.store.get(name).bytes()))
        if what == "delete" or not whole:
            self.store.delete(name)
            return
        at %= len(whole)
        if what == "change":
            whole[at] ^= change
        self.store.put(name, bytes({"cut": whole[:at], "empty": b""}.get(what, whole)))

    @invariant()
    def memory_that_was_given_back_is_as_it_was_left(self) -> None:
        assert (self.memory[self.free] == self.scribbled[self.free]).all()

    def teardown(self) -> None:
        if not hasattr(self, "front"):
            return
        self.bucket.shut = False
        self.drain()
        self.engine.wait_idle(written=True)
        self.front.stop()
        self.memory_that_was_given_back_is_as_it_was_left()
        self._everything_that_is_found_is_right()

    def _everything_that_is_found_is_right(self) -> None:
        """By a new pod, whose memory is new too."""
        memory = np.zeros((ROWS, CHUNK), np.uint8)
        engine = Engine(lambda: self._desk(Bucket(self.store), memory, "Always", quick=False))
        engine.start()
        front = Front(engine, SHAPES, 20.0)
        try:
            for prompt in "ab":
                keys = keys_of(prompt, LENGTH)
                hits = self._found(front, prompt, keys)
                front.load(1, prompt, hits, list(range(len(hits))))
                front.wait_idle()
                [ended] = front.ended()
                assert ended.done is not None
                for row, key in enumerate(hits):
                    assert key not in ended.done or (memory[row] == content(key, CHUNK)).all()
        finally:
            front.stop()

    def _found(self, front: Front, name: str, keys: Sequence[bytes]) -> list[bytes]:
        places = [(key, (index + 1) * TOKENS) for index, key in enumerate(keys)]
        while True:
            answers = [front.lookup(name, key, end, lambda: places) for key, end in places]
            front.step()
            if Answer.LATER not in answers:
                pairs = zip(keys, answers, strict=True)
                return [key for key, answer in pairs if answer is Answer.HIT]

    def _hits(self, name: str, keys: Sequence[bytes]) -> list[bytes]:
        ends, found = dict(self._positions(name)), []
        for key in keys:
            answer = self.front.lookup(name, key, ends[key], lambda: self._positions(name))
            if answer is Answer.MISS:
                break
            if answer is Answer.HIT:
                found.append(key)
        return found

    def _over(self, ended: Ended) -> None:
        assert ended.job not in self.over
        self.over.add(ended.job)
        assert (ended.done is None) == (ended.job in self.stores)
        if ended.done is None:
            rows = self.stores.pop(ended.job)
        else:
            rows = self.loads.pop(ended.job)
            assert ended.done <= set(rows)
            assert ended.success == (ended.done == set(rows))
            for key in ended.done:
                assert (self.memory[rows[key]] == content(key, CHUNK)).all()
        # They are somebody else's now, who writes to them.
        for row in rows.values():
            self.memory[row] = self.scribbled[row] = row + ended.job % 100
            self.free.append(row)

    def _positions(self, name: str) -> list[tuple[bytes, int]]:
        groups = self.requests[name]
        return [(key, (index + 1) * TOKENS) for group in groups for index, key in enumerate(group)]

    def _desk(
        self, bucket: Bucket, memory: np.ndarray, admission: str, *, quick: bool = True
    ) -> Desk:
        settings = settings_for(admission=admission, deadlines=QUICK if quick else {})
        return Desk(settings, bucket, PLACE, self.layout, SlowRows(memory.data))


TestTier = Tier.TestCase
TestTier.settings = examples(30)
