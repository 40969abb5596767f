"""When a store is left alone, and when it is tried again."""

from kindling_runtime.kv.policy.breaker import Breaker, BreakerState


def opened(*, at: float = 0.0) -> Breaker:
    breaker = Breaker(failures=3, first=1.0, longest=4.0)
    for _ in range(3):
        breaker.failed(at, "no answer within 2 s")
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker(failures=3)
    for _ in range(2):
        breaker.failed(0.0, "x")
    breaker.succeeded()
    for _ in range(2):
        breaker.failed(0.0, "x")
    assert breaker.state(0.0) is BreakerState.CLOSED
    assert breaker.why == ""
    breaker.failed(0.0, "503 SlowDown")
    assert breaker.state(0.0) is BreakerState.OPEN
    assert breaker.why == "503 SlowDown"
    assert breaker.opened == 1


def test_half_open_it_lets_one_request_try() -> None:
    breaker = opened()
    assert not breaker.allows(0.99)
    assert breaker.state(1.0) is BreakerState.HALF_OPEN
    assert breaker.allows(1.0)
    assert breaker.state(1.0) is BreakerState.HALF_OPEN
    assert not breaker.allows(1.5)
    breaker.succeeded()
    assert breaker.state(1.5) is BreakerState.CLOSED
    assert breaker.allows(1.5)


def test_a_try_that_fails_doubles_the_time_up_to_the_longest() -> None:
    breaker, now = opened(), 0.0
    for wait in (1.0, 2.0, 4.0, 4.0):
        assert not breaker.allows(now + wait - 0.01)
        now += wait
        assert breaker.allows(now)
        breaker.failed(now, "again")
    assert breaker.opened == 1


def test_what_ends_after_it_opened_does_not_prolong_it() -> None:
    breaker = opened()
    breaker.failed(0.9, "late")
    assert breaker.allows(1.0)


def test_a_try_that_is_never_told_of_does_not_keep_it_shut() -> None:
    breaker = opened()
    assert breaker.allows(1.0)
    assert breaker.allows(2.0)
