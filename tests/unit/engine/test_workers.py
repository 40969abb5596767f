"""What follows from how a pass ended; and a worker that outlives a failing pass."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.support.clock import Clock
from tests.support.observed import ENVIRONMENT, KEY, model

from kindling_operator.kube.client import Kube
from kindling_operator.model.names import Key
from kindling_operator.model.outcome import Retry
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.watched import MODELS, Entry
from kindling_operator.reconcile.loop import Ended, Reconciler, Result
from kindling_operator.reconcile.queue import Queue
from kindling_operator.reconcile.schedule import Backoff
from kindling_operator.reconcile.workers import settle, work
from kindling_operator.report.events import Recorder
from kindling_operator.report.metrics import Metrics


def queue(clock: Clock) -> Queue[Key]:
    return Queue(backoff=Backoff(first=1.0), clock=clock, chance=lambda: 0.0)


CASES: dict[str, tuple[Result, float | None]] = {
    "unchanged": (Result(Ended.UNCHANGED), None),
    "changed, with a deadline ahead": (Result(Ended.CHANGED, again=90.0), 90.0),
    "it waits for its own writes": (Result(Ended.WAITING, again=0.05), 0.05),
    "the model is gone": (Result(Ended.GONE), None),
    "the cluster refuses a part": (Result(Ended.REFUSED), 1.0),
    "the operator has a bug": (Result(Ended.ERROR), 1.0),
    "an error": (Result(Ended.RETRY, retry=Retry("Unavailable", "away")), 1.0),
    "the server asks for patience": (
        Result(Ended.RETRY, retry=Retry("TooManyRequests", "slow", after=7.0)),
        7.0,
    ),
    "another leads now": (Result(Ended.RETRY, retry=Retry("Fenced", "no", counts=False)), 5.0),
}


@pytest.mark.parametrize(("result", "again"), CASES.values(), ids=CASES)
async def test_when_a_key_comes_up_again(result: Result, again: float | None) -> None:
    clock = Clock()
    keys = queue(clock)
    settle(keys, KEY, result)

    if again is None:
        clock.now += 10_000
        assert await keys.get(within=0) is None
        return
    clock.now += again - 0.01
    assert await keys.get(within=0) is None
    clock.now += 0.02
    assert await keys.get(within=0) == KEY


async def test_a_success_ends_the_backoff_and_waiting_does_not() -> None:
    keys = queue(Clock())
    failed = Result(Ended.RETRY, retry=Retry("Unavailable", "away"))
    for _ in range(3):
        settle(keys, KEY, failed)
    settle(keys, KEY, Result(Ended.WAITING, again=0.05))
    assert keys.retry(KEY) == 8.0

    settle(keys, KEY, Result(Ended.UNCHANGED))

    assert keys.retry(KEY) == 1.0


async def test_a_refusal_is_looked_at_again_within_half_a_minute() -> None:
    keys = queue(Clock())

    assert [keys.retry(KEY, at_least=1.0, at_most=30.0) for _ in range(7)] == [
        1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0,
    ]  # fmt: skip


class BrokenClock:
    """A bug outside of deciding; `twice` is set when it was met for the second time."""

    def __init__(self) -> None:
        self.twice = asyncio.Event()
        self._asked = 0

    def __call__(self) -> datetime:
        self._asked += 1
        if self._asked == 2:
            self.twice.set()
        raise ZeroDivisionError("a bug")


def unused_plan(_snapshot: Snapshot, _key: Key) -> Decision:
    raise AssertionError("there is nothing to decide")


def present() -> datetime:
    return datetime.now(UTC)


def unused_render(_snapshot: Snapshot, _decision: Decision) -> tuple[dict[str, object], ...]:
    raise AssertionError("nothing was decided")


def reconciler(cache: Cache, metrics: Metrics, now: Callable[[], datetime] = present) -> Reconciler:
    # No request is made here, and a client without a server would fail the test if one were.
    kube = Kube.__new__(Kube)
    return Reconciler(
        kube,
        cache,
        Recorder(kube, instance="test"),
        metrics,
        plan=unused_plan,
        render=unused_render,
        now=now,
    )


def cache_with_model(*, synced: bool) -> Cache:
    cache = Cache(ENVIRONMENT)
    entry = Entry("1", "1", KEY.namespace, KEY.name, KEY, model())
    cache.attach({MODELS.id: {"1": [entry]}})
    if synced:
        cache.touch(MODELS)
    return cache


async def test_a_bug_in_one_pass_is_counted_and_retried_and_the_worker_lives() -> None:
    keys, metrics, clock = Queue[Key](), Metrics(), BrokenClock()
    leading = asyncio.Event()
    leading.set()
    made = reconciler(cache_with_model(synced=True), metrics, clock)
    worker = asyncio.create_task(
        work(keys, made, leading=leading, metrics=metrics, beat=lambda: None)
    )
    keys.add(KEY)
    await asyncio.wait_for(clock.twice.wait(), 5)

    assert not worker.done()
    assert metrics.registry.get_sample_value("kindling_reconcile_total", {"result": "error"})
    worker.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await worker


async def test_nothing_is_decided_before_every_watch_has_delivered() -> None:
    made = reconciler(cache_with_model(synced=False), Metrics())

    assert (await made.reconcile(KEY)).ended is Ended.WAITING


async def test_a_model_that_is_gone_needs_no_decision() -> None:
    made = reconciler(cache_with_model(synced=True), Metrics())

    assert (await made.reconcile(Key("ml", "other"))).ended is Ended.GONE
