"""Whether loading pays."""

from kindling_runtime.kv.policy.hedge import Hedge
from kindling_runtime.kv.policy.worth import Estimate, Worth

KIB_PER_TOKEN = 28 << 10


def learned(*, latency: float = 0.05, bandwidth: float = 1e9, speed: float = 20_000.0) -> Worth:
    worth = Worth()
    worth.answered(latency)
    worth.loaded(int(bandwidth), latency + 1.0)
    worth.computed(int(speed), 1.0)
    worth.density = float(KIB_PER_TOKEN)
    return worth


def test_until_something_is_known_everything_is_loaded() -> None:
    worth = Worth()
    assert worth.estimate(1000, 1 << 30) == Estimate(None, None)
    assert worth.pays(1, 1 << 40)
    assert worth.threshold() == 0


def test_estimates_are_what_was_learned() -> None:
    found = learned().estimate(100_000, 100_000 * KIB_PER_TOKEN)
    assert found.recompute == 5.0
    assert found.load is not None
    assert abs(found.load - 2.917) < 0.001


def test_short_prefixes_do_not_pay_and_the_threshold_says_where_that_ends() -> None:
    worth = learned()
    edge = worth.threshold()
    assert edge is not None
    assert not worth.pays(edge - 100, (edge - 100) * KIB_PER_TOKEN)
    assert worth.pays(edge + 100, (edge + 100) * KIB_PER_TOKEN)
    assert worth.skipped == 1


def test_a_slow_store_never_pays_and_is_tried_now_and_then() -> None:
    worth = learned(bandwidth=1e8)
    assert worth.threshold() is None
    answers = [worth.pays(100_000, 100_000 * KIB_PER_TOKEN) for _ in range(64)]
    assert answers.count(True) == 2
    assert worth.skipped == 62


def test_what_is_slower_now_is_learned() -> None:
    worth = learned()
    for _ in range(30):
        worth.loaded(1 << 20, 1.0)
    assert worth.bandwidth is not None
    assert worth.bandwidth < 3e6


def test_a_hedge_waits_for_what_most_reads_took_and_is_seldom() -> None:
    hedge = Hedge(saved=2.0)
    assert hedge.after() is None
    for number in range(100):
        hedge.took(0.1 if number < 90 else 1.0)
    assert hedge.after() == 1.0
    assert [hedge.take() for _ in range(3)] == [True, True, False]
    for _ in range(20):
        hedge.took(0.1)
    assert hedge.take()
    assert not hedge.take()


def test_a_hedge_is_not_sent_at_once_to_a_store_that_is_quick() -> None:
    hedge = Hedge(shortest=0.01)
    for _ in range(50):
        hedge.took(0.0001)
    assert hedge.after() == 0.01
