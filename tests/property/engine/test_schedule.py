"""The queue's bookkeeping against a plain model of it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.examples import examples

from kindling_operator.reconcile.schedule import Backoff, Schedule

KEYS = st.sampled_from("abcd")


class ScheduleModel(RuleBasedStateMachine):
    """Adds, due times, takes and dones in any order: nothing is lost, nothing runs twice."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[str] = Schedule()
        self.now = 0.0
        self.wanted: set[str] = set()
        self.due: dict[str, float] = {}
        self.working: set[str] = set()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.schedule.add(key)
        self.wanted.add(key)
        if key not in self.working:
            self.due.pop(key, None)

    @rule(key=KEYS, later=st.integers(min_value=0, max_value=9))
    def add_at(self, key: str, later: int) -> None:
        self.schedule.add_at(key, self.now + later)
        if key not in self.wanted or key in self.working:
            self.due[key] = min(self.due.get(key, self.now + later), self.now + later)

    @rule(passed=st.integers(min_value=1, max_value=5))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule()
    def take(self) -> None:
        ripe = {key for key, at in self.due.items() if at <= self.now}
        self.wanted |= ripe
        self.due = {key: at for key, at in self.due.items() if key not in ripe}
        ready = self.wanted - self.working

        taken = self.schedule.take(self.now)

        assert (taken is None) == (not ready)
        if taken is not None:
            assert taken in ready
            self.wanted.discard(taken)
            self.working.add(taken)

    @rule(key=KEYS)
    def done(self, key: str) -> None:
        if key in self.working:
            self.schedule.done(key)
            self.working.discard(key)
            if key in self.wanted:
                self.due.pop(key, None)

    @invariant()
    def next_due_is_the_earliest(self) -> None:
        assert self.schedule.next_due() == min(self.due.values(), default=None)


ScheduleModel.TestCase.settings = settings(examples(100), stateful_step_count=40)
TestSchedule = ScheduleModel.TestCase


@given(st.integers(min_value=1, max_value=10**9), st.floats(0, 1, exclude_max=True))
def test_backoff_never_leaves_its_bounds(failures: int, chance: float) -> None:
    backoff = Backoff()

    assert backoff.first * 0.5 <= backoff.after(failures, chance=chance) <= backoff.cap
