"""Asking through the Service: real HTTP to pods and a Service of the test's own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiohttp import web
from tests.support.answering import answering
from tests.support.observed import KEY, child, decision, pod, revision, snapshot
from tests.support.ports import free_ports

from kindling_operator.model.names import SERVICE
from kindling_operator.model.objects import ChildView
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Answers
from kindling_operator.observe import endpoint
from kindling_operator.observe.endpoint import Question, ask, question

OLD, NEW = revision("0000000000", served=True), revision("1111111111")
WAITS = decision((NEW, 1), (OLD, 1), ask=True)


@dataclass
class Replica:
    """A pod as the operator meets it: its runtime's port, and a count of its engine's answers."""

    port: int
    count: int | None = 5
    status: int = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def show(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"modelsAnswers": self.count, "phase": "Ready"}, status=self.status
        )

    def answer(self) -> None:
        if self.count is not None:
            self.count += 1


@asynccontextmanager
async def listening(port: int, path: str, handler: Any) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_get(path, handler)
    async with answering(app, port=port):
        yield


@asynccontextmanager
async def cluster(
    new: Sequence[Replica], *, behind: Sequence[Replica], status: int = 200
) -> AsyncIterator[Question]:
    """The new pods, and a Service that gives each request to the next of those behind it."""
    (port,) = free_ports(1)
    asked = 0

    async def serve(_: web.Request) -> web.Response:
        nonlocal asked
        behind[asked % len(behind)].answer()
        asked += 1
        return web.Response(status=status)

    async with AsyncExitStack() as stack:
        for each in new:
            await stack.enter_async_context(listening(each.port, "/status", each.show))
        await stack.enter_async_context(listening(port, "/v1/models", serve))
        pods = {f"uid-{place}": each.url for place, each in enumerate(new)}
        yield Question(KEY, f"http://127.0.0.1:{port}", pods, len(behind))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here counts late."""
    monkeypatch.setattr(endpoint, "COUNTED_SECONDS", 0.01)


@pytest.fixture
def replicas() -> tuple[Replica, Replica, Replica]:
    one, two, three = (Replica(port) for port in free_ports(3))
    return one, two, three


async def test_the_pod_whose_count_rises_has_answered(replicas: Sequence[Replica]) -> None:
    old, new, other = replicas
    async with cluster([new, other], behind=[old, new]) as asked:
        found = await ask(asked)

    assert found == Answers(frozenset({"uid-0"}))


async def test_answers_of_older_pods_prove_nothing(replicas: Sequence[Replica]) -> None:
    old, new, _ = replicas
    async with cluster([new], behind=[old]) as asked:
        found = await ask(asked)

    assert found.pods == frozenset()
    assert found.problem == (
        f"none of the answers at {asked.service}/v1/models came from one of them yet: see whether"
        " something between Service and pods keeps them out"
    )


async def test_a_pod_that_counts_nothing_is_believed_where_the_service_answers(
    replicas: Sequence[Replica],
) -> None:
    old, new, _ = replicas
    new.count = None
    async with cluster([new], behind=[old]) as asked:
        found = await ask(asked)

    assert found.pods == {"uid-0"}


async def test_a_service_that_cannot_be_reached_is_told_with_the_port_to_allow(
    replicas: Sequence[Replica],
) -> None:
    old, new, _ = replicas
    (nobody,) = free_ports(1)
    async with cluster([new], behind=[old]) as asked:
        found = await ask(replace(asked, service=f"http://127.0.0.1:{nobody}"))

    assert found.pods == frozenset()
    assert found.problem == (
        f"http://127.0.0.1:{nobody} gave no answer (ClientConnectorError) when the operator asked:"
        " allow the operator's pods to reach the model's at port 8000, or set proveEndpoint=false"
        " in the chart"
    )


async def test_a_service_that_answers_with_errors_alone_proves_nothing(
    replicas: Sequence[Replica],
) -> None:
    _, new, _ = replicas
    async with cluster([new], behind=[new], status=503) as asked:
        found = await ask(asked)

    assert found.pods == frozenset()
    assert "answered HTTP 503" in found.problem


async def test_pods_that_cannot_be_reached_are_told_with_the_port_to_allow(
    replicas: Sequence[Replica],
) -> None:
    old, new, _ = replicas
    async with cluster([], behind=[old, new]) as asked:
        found = await ask(replace(asked, pods={"uid": new.url}))

    assert found.pods == frozenset()
    assert found.problem == (
        f"{new.url} gave no answer (ClientConnectorError) when the operator asked: allow the"
        " operator's pods to reach the model's at port 9400, or set proveEndpoint=false in the"
        " chart"
    )


async def test_one_pod_that_answers_is_enough(replicas: Sequence[Replica]) -> None:
    _, new, gone = replicas
    broken = replace(gone, status=500)
    async with cluster([new, broken], behind=[new]) as asked:
        found = await ask(asked)

    assert found.pods == {"uid-0"}


def service(cluster_ip: str) -> ChildView:
    base = child(SERVICE, KEY.name)
    spec = {"clusterIP": cluster_ip, "ports": [{"name": "http", "port": 8080}]}
    return replace(base, manifest={**base.manifest, "spec": spec})


def asked_of(cluster_ip: str, address: str, made: Decision = WAITS) -> Question | None:
    pods = [
        pod("old", digest=OLD.hash, ready=True, address="10.0.0.1"),
        pod("new", digest=NEW.hash, ready=True, address=address),
        pod("late", digest=NEW.hash, address="10.0.0.3"),
    ]
    seen = snapshot(pods=pods, children=[service(cluster_ip)], endpoints=["new", "old"])
    return question(seen, made)


def test_asked_are_the_new_pods_behind_the_service_by_address() -> None:
    assert asked_of("10.96.0.7", "10.0.0.2") == Question(
        KEY, "http://10.96.0.7:8080", {"uid-of-new": "http://10.0.0.2:9400"}, behind=2
    )
    assert asked_of("fd00::7", "fd00:1::2") == Question(
        KEY, "http://[fd00::7]:8080", {"uid-of-new": "http://[fd00:1::2]:9400"}, behind=2
    )


@pytest.mark.parametrize(
    ("cluster_ip", "address", "made"),
    [
        ("None", "10.0.0.2", WAITS),
        ("", "10.0.0.2", WAITS),
        ("10.96.0.7", "", WAITS),
        ("10.96.0.7", "10.0.0.2", replace(WAITS, ask=False)),
    ],
    ids=["headless", "no address yet", "no pod's address", "nobody waits"],
)
def test_nothing_is_asked_where_there_is_nobody_to_ask(
    cluster_ip: str, address: str, made: Decision
) -> None:
    assert asked_of(cluster_ip, address, made) is None
