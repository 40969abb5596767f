"""How the tier stands, as /status tells it."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from obstore.store import MemoryStore
from tests.support.kv.pods import PLACE, settings_for

from kindling_runtime.contract import CacheReason, CacheStatus
from kindling_runtime.kv import telling
from kindling_runtime.kv.bucket import Bucket, Trouble
from kindling_runtime.kv.desk import Desk
from kindling_runtime.kv.policy.breaker import Breaker
from kindling_runtime.kv.policy.layout import Layout
from kindling_runtime.kv.rows import Rows
from kindling_runtime.kv.standing import broken, standing


def desk_of(bucket: Bucket) -> Desk:
    memory = np.zeros((2, 64), np.uint8)
    return Desk(settings_for(), bucket, PLACE, Layout(2, 64), Rows(memory.data))


def unheard(desk: Desk) -> None:
    """Nothing was asked yet."""


def heard(desk: Desk) -> None:
    desk.bucket.heard = True
    desk.counts.prompt_tokens, desk.counts.hit_tokens = 100, 64


def unreachable(desk: Desk) -> None:
    desk.bucket.trouble, desk.bucket.said = Trouble.LATE, "no answer to head within 1 s"


def refused(desk: Desk) -> None:
    desk.bucket.trouble, desk.bucket.said = Trouble.REFUSED, "HTTP 403, AccessDenied"


def resting(desk: Desk) -> None:
    heard(desk)
    desk.bucket.trouble = Trouble.BUSY
    for _ in range(5):
        desk.bucket.breaker.failed(desk.clock(), "HTTP 503, SlowDown: Reduce your request rate")


def slow(desk: Desk) -> None:
    heard(desk)
    worth = desk.worth
    worth.latency, worth.bandwidth, worth.speed, worth.density = 0.1, 1e8, 20_000.0, 28672.0


@pytest.mark.parametrize(
    ("becomes", "reason", "message"),
    [
        (unheard, CacheReason.UNPROVEN, "s3://kv/x has not answered yet"),
        (heard, CacheReason.IN_USE, "s3://kv/x is in use"),
        (
            unreachable,
            CacheReason.UNREACHABLE,
            "s3://kv/x does not answer (no answer to head within 1 s)",
        ),
        (
            refused,
            CacheReason.REFUSED,
            "s3://kv/x refuses the pod's identity (HTTP 403, AccessDenied)",
        ),
        (
            resting,
            CacheReason.BREAKER_OPEN,
            "s3://kv/x is left out after 5 failures in a row (HTTP 503, SlowDown: Reduce your "
            "request rate); it is tried again at least every 60 s",
        ),
        (
            slow,
            CacheReason.DOES_NOT_PAY,
            "loading from s3://kv/x takes 5.9 times as long as computing again, so nearly nothing "
            "is loaded",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_reason_and_sentence(
    becomes: Callable[[Desk], None], reason: CacheReason, message: str
) -> None:
    desk = desk_of(Bucket(MemoryStore(), Breaker(), lambda: 10.0))
    desk.clock = lambda: 10.0
    becomes(desk)
    told = standing(desk)
    assert (told.reason, told.message) == (reason, message)
    assert told.ready is (reason is CacheReason.IN_USE)


def test_what_an_engine_wrote_is_read_and_forgotten(tmp_path: Path) -> None:
    assert telling.read(tmp_path) is None
    status = CacheStatus(ready=True, reason=CacheReason.IN_USE, message="x", hit_tokens=5)
    telling.write(tmp_path, status)
    assert telling.read(tmp_path) == status
    assert [path.name for path in tmp_path.iterdir()] == [f"{os.getpid()}.cache"]


def test_of_several_engines_the_one_that_lacks_its_tier_is_told_of(tmp_path: Path) -> None:
    good = CacheStatus(ready=True, reason=CacheReason.IN_USE, message="in use", hit_tokens=5)
    bad = broken(CacheReason.UNREACHABLE, "away")
    for name, status in {"1": good, "2": msgspec.structs.replace(bad, hit_tokens=2)}.items():
        (tmp_path / f"{name}.cache").write_bytes(msgspec.json.encode(status))
    (tmp_path / "3.cache").write_bytes(b"{")
    told = telling.read(tmp_path)
    assert told is not None
    assert (told.ready, told.reason, told.hit_tokens) == (False, CacheReason.UNREACHABLE, 7)
