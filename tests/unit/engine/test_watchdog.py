"""The audit's rounds, against an API server that is away: a port that nobody listens on."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from kubernetes.aio.client.configuration import Configuration
from tests.support.observed import ENVIRONMENT

from kindling_operator.kube.client import Kube
from kindling_operator.model.names import Key
from kindling_operator.observe.audit import Auditor
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.watched import MODELS
from kindling_operator.reconcile.health import Health
from kindling_operator.reconcile.queue import Queue
from kindling_operator.reconcile.watchdog import FULL_AUDIT_ROUNDS, audit
from kindling_operator.report.metrics import Metrics

INTERVAL = 0.01


@pytest.fixture
def asked() -> list[str]:
    """The kinds that were asked for."""
    return []


@pytest.fixture
async def client(asked: list[str]) -> AsyncIterator[Kube]:
    away = Configuration()
    away.host = "http://127.0.0.1:1"

    def counted(_verb: str, kind: str, _outcome: str, _seconds: float) -> None:
        asked.append(kind)

    async with Kube(away, counted=counted) as made:
        yield made


async def audited(client: Kube, cache: Cache, seconds: float) -> None:
    """Run the audit for so long."""
    task = asyncio.create_task(
        audit(
            Auditor(client, cache, grace=30),
            cache,
            Queue[Key](),
            health=Health(),
            metrics=Metrics(),
            interval=INTERVAL,
            resync=600,
        )
    )
    await asyncio.sleep(seconds)
    assert not task.done(), "an API server that is away ends no audit"
    task.cancel()


async def test_a_round_ends_with_the_first_request_that_gets_no_answer(
    client: Kube, asked: list[str]
) -> None:
    cache = Cache(ENVIRONMENT)
    cache.touch(MODELS)
    await audited(client, cache, seconds=3)

    assert len(asked) >= FULL_AUDIT_ROUNDS
    assert set(asked) == {MODELS.kind.kind}


async def test_nothing_is_compared_before_the_watches_have_delivered(
    client: Kube, asked: list[str]
) -> None:
    await audited(client, Cache(ENVIRONMENT), seconds=20 * INTERVAL)

    assert asked == []
