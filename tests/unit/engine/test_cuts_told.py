"""From the watch to the API server: a pod's cut requests become one event of its model."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration
from tests.support.beside import Sources
from tests.support.observed import ENVIRONMENT, KEY, decision, model
from tests.unit.engine.test_cuts import TOLD, body

from kindling_operator.kube.client import Kube
from kindling_operator.kube.fence import Fence
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.plan import Decision, Verdict
from kindling_operator.observe.watched import MODELS, PODS, Entry
from kindling_operator.plan.placement import Placements
from kindling_operator.reconcile.process import Process, Tuning
from kindling_operator.report.metrics import Metrics

REFUSED = decision(verdicts=(Verdict(ConditionType.ACCEPTED, Reason.UNKNOWN_MODEL, "No."),))


@pytest.fixture
def written() -> list[dict[str, Any]]:
    """What was written to the API server, in order."""
    return []


@pytest.fixture
async def kube(written: list[dict[str, Any]]) -> AsyncIterator[Kube]:
    async def keep(request: web.Request) -> web.Response:
        found = await request.json()
        written.append(found)
        return web.json_response(found, status=201 if request.method == "POST" else 200)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", keep)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there = Configuration()
    there.host = "http://{}:{}".format(*runner.addresses[0])
    async with Kube(there) as made:
        yield made
    await runner.cleanup()


async def test_the_end_of_a_pod_becomes_one_event(
    kube: Kube, written: list[dict[str, Any]]
) -> None:
    def plan(*_: object, **__: object) -> Decision:
        return REFUSED

    process = Process(
        Tuning(identity="operator-0", namespace="kindling"),
        ENVIRONMENT,
        Metrics(),
        kube=kube,
        lease_kube=kube,
        fence=Fence(lease_seconds=15, renew_seconds=10),
        plan=plan,
        sweep=lambda *_: Placements({}),
        render=lambda *_: (),
    )
    entry = Entry("1", "1", KEY.namespace, KEY.name, KEY, model())
    process.attach({MODELS.id: {"1": [entry]}, PODS.id: {}})
    process.cache.follow(Sources().beside)

    gone = body(at=datetime.now(UTC))
    process.event(PODS, gone)
    assert await process.queue.get(within=0) == KEY
    for _ in range(2):
        await process._reconciler.reconcile(KEY)
        process.event(PODS, gone)

    told = [each["note"] for each in written if each.get("reason") == "RequestsCut"]
    assert told == [TOLD]
