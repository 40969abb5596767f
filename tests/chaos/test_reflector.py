"""Pods of others as the real API server shows them: in pages, by a long watch, after it forgot."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_kube_config
from tests.chaos.conftest import FIRST
from tests.support import audit, kubelet
from tests.support.apiserver import ControlPlane
from tests.support.kube import POD, Kube, Object
from tests.support.kubelet import NODE_NAME

from kindling_operator.kube import client
from kindling_operator.kube.client import Kube as Client
from kindling_operator.kube.kinds import NODE, RESOURCE_SLICE
from kindling_operator.kube.reflector import Reflector
from kindling_operator.model.names import LABEL_MODEL, Kind
from kindling_operator.model.objects import NodeUse
from kindling_operator.observe.beside import FOREIGN
from kindling_operator.observe.devices import Slices
from kindling_operator.observe.foreign import ForeignPods
from kindling_operator.observe.nodes import Nodes

pytestmark = pytest.mark.cluster

SECONDS: Final = 30.0
GIB: Final = 1 << 30


def pod(name: str, namespace: str, *, gpus: int = 0, model: str = "") -> Object:
    """One of 1 CPU and 1 GiB that has its node already."""
    amounts = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {
        "name": "c",
        "image": "registry.test/c",
        "resources": {"requests": amounts, "limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {LABEL_MODEL: model} if model else {},
        },
        "spec": {"nodeName": NODE_NAME, "containers": [container]},
    }


@pytest.fixture
def place(kube: Kube, namespace: str) -> Iterator[str]:
    """A namespace whose pods belong to nobody, and go with the test."""
    yield namespace
    kube.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")


@asynccontextmanager
async def reader(plane: ControlPlane) -> AsyncIterator[Client]:
    """The operator's client with the operator's rights."""
    settings = Configuration()
    path: Path = plane.kubeconfig(FIRST)
    await load_kube_config(str(path), client_configuration=settings, persist_config=False)
    async with Client(settings) as made:
        yield made


@asynccontextmanager
async def running(reflector: Reflector[Any]) -> AsyncIterator[None]:
    """Let it list and watch."""
    task = asyncio.create_task(reflector.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


class Changes:
    """Told by reflectors, waited for by tests."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self._event.set()

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait for it."""
        try:
            async with asyncio.timeout(SECONDS):
                while not holds():
                    self._event.clear()
                    await self._event.wait()
        except TimeoutError:
            raise AssertionError(f"not within {SECONDS:.0f} s: {what}") from None


def foreign(made: Client, namespace: str, changes: Changes) -> Reflector[ForeignPods]:
    return Reflector(
        made,
        POD,
        ForeignPods,
        changed=changes,
        beat=lambda: None,
        namespace=namespace,
        selector=FOREIGN,
    )


async def inside(call: Callable[..., Any], *given: Any) -> Any:
    """A blocking call of the test's own client, while the loop goes on."""
    return await asyncio.to_thread(call, *given)


def story(told: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await told()
        # A TLS connection that was given up ends in the loop's next rounds (aiohttp's docs on
        # graceful shutdown); else its socket is found open by whatever test runs then.
        await asyncio.sleep(0.25)

    asyncio.run(all_of_it())


def use(pods: int) -> dict[str, NodeUse]:
    return {NODE_NAME: NodeUse(cpu_millis=1000 * pods, memory=pods * GIB, pods=pods)}


def test_pods_of_others_are_listed_in_pages_and_followed(
    plane: ControlPlane, kube: Kube, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    kube.apply(
        *(pod(f"web-{number}", place) for number in range(5)),
        pod("job", place, gpus=2),
        pod("ours", place, model="flint"),
    )
    mark = audit.end(plane.audit_log)

    async def told() -> None:
        async with reader(plane) as made:
            changes = Changes()
            seen = foreign(made, place, changes)
            async with running(seen):
                await changes.until("the list", lambda: seen.synced)
                assert seen.store.used == use(5)
                assert [(each.name, each.gpus) for each in seen.store.holders] == [("job", 2)]

                await inside(kube.apply, pod("late", place))
                await changes.until("one more", lambda: seen.store.used == use(6))
                await inside(kube.delete, POD, "job", place)
                await inside(kubelet.end_leaving, kube, place)
                await changes.until("no holder", lambda: not seen.store.holders)
            assert seen.lists == 1

    story(told)
    requests = [
        each
        for each in audit.requests(plane.audit_log, start=mark)
        if each.user == FIRST and f"/namespaces/{place}/pods" in each.uri
    ]
    assert [each.verb for each in requests].count("list") == 3
    assert any("allowWatchBookmarks=true" in each.uri for each in requests)


def test_a_place_that_the_api_server_forgot_is_listed_again(
    plane: ControlPlane, kube: Kube, place: str
) -> None:
    """What was deleted meanwhile is gone, without any event that said so."""
    kube.apply(pod("stays", place), pod("goes", place))

    async def told() -> None:
        async with reader(plane) as made:
            changes = Changes()
            seen = foreign(made, place, changes)
            async with running(seen):
                await changes.until("both", lambda: seen.store.used == use(2))
            await inside(kube.kubectl, "delete", "pod", "goes", "-n", place, "--force")
            await inside(plane.restart, "kube-apiserver")
            async with running(seen):
                await changes.until("one", lambda: seen.store.used == use(1))
            assert seen.lists == 2

    story(told)


def test_a_stream_that_ends_goes_on_where_it_was(
    plane: ControlPlane, kube: Kube, place: str
) -> None:
    kube.apply(pod("one", place))

    async def told() -> None:
        async with reader(plane) as made:
            changes = Changes()
            seen = foreign(made, place, changes)
            async with running(seen):
                await changes.until("one", lambda: seen.store.used == use(1))
            await inside(kube.apply, pod("two", place))
            async with running(seen):
                await changes.until("two", lambda: seen.store.used == use(2))
            assert seen.lists == 1, "it resumed and did not list again"

    story(told)


def test_nodes_and_kinds_that_the_cluster_lacks(plane: ControlPlane, kube: Kube) -> None:
    unknown = Kind("resource.k8s.io/v0", "ResourceSlice", "resourceslices")

    async def told() -> None:
        async with reader(plane) as made:
            changes = Changes()

            def one(kind: Kind, store: Callable[[], Any], *, optional: bool) -> Reflector[Any]:
                return Reflector(
                    made,
                    kind,
                    store,
                    changed=changes,
                    beat=lambda: None,
                    optional=optional,
                )

            nodes = one(NODE, Nodes, optional=False)
            slices, absent = (
                one(kind, Slices, optional=True) for kind in (RESOURCE_SLICE, unknown)
            )
            async with running(nodes), running(slices), running(absent):
                await changes.until(
                    "all lists", lambda: nodes.synced and slices.synced and absent.synced
                )
            assert NODE_NAME in {view.name for view in nodes.store.views}
            assert absent.store.devices == ()

    story(told)
