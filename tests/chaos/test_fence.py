"""The fence at the last moment before the bytes leave, against a real API server."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.chaos.conftest import FIRST
from tests.support import audit
from tests.support.apiserver import ControlPlane
from tests.support.clients import configured
from tests.support.clock import Clock
from tests.support.kube import Kube as Admin
from tests.support.proxy import Proxy, proxied

from kindling_operator.kube.client import Body, Kube
from kindling_operator.kube.errors import (
    ConflictError,
    FencedError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from kindling_operator.kube.fence import Fence
from kindling_operator.model.names import CONFIG_MAP, FIELD_MANAGER
from kindling_operator.model.objects import ObjectRef

pytestmark = pytest.mark.cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fence(clock: Clock) -> Fence:
    made = Fence(lease_seconds=15, renew_seconds=10, clock=clock)
    made.extend(clock.now)
    return made


@pytest.fixture
async def fenced(plane: ControlPlane, fence: Fence) -> AsyncIterator[tuple[Kube, Proxy]]:
    """A client whose connections a test can hold."""
    with proxied(plane.api_port) as proxy:
        path = plane.kubeconfig(FIRST, server=f"https://127.0.0.1:{proxy.port}")
        async with Kube(await configured(path), fence=fence) as kube:
            yield kube, proxy


def config_map(namespace: str, **metadata: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "probe", "namespace": namespace, **metadata},
        "data": {"a": "b"},
    }


async def test_a_write_is_not_sent_once_the_fence_is_closed(
    fenced: tuple[Kube, Proxy], fence: Fence, plane: ControlPlane, kube: Admin, namespace: str
) -> None:
    mark = audit.end(plane.audit_log)
    fence.close()

    with pytest.raises(FencedError):
        await fenced[0].apply(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)

    assert audit.written(plane.audit_log, FIRST, start=mark) == []


async def test_a_write_that_waits_for_its_connection_is_not_sent_when_the_fence_closes(
    fenced: tuple[Kube, Proxy], clock: Clock, plane: ControlPlane, kube: Admin, namespace: str
) -> None:
    client, proxy = fenced
    mark = audit.end(plane.audit_log)
    proxy.hold(held=True)
    writing = asyncio.create_task(
        client.apply(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)
    )
    await asyncio.sleep(0.5)  # the fence was open when it began; now it waits for TLS
    clock.now += 10
    proxy.hold(held=False)

    with pytest.raises(FencedError):
        await writing

    assert audit.written(plane.audit_log, FIRST, start=mark) == []
    assert kube.get(CONFIG_MAP, "probe", namespace) is None


async def test_reading_needs_no_lease(
    fenced: tuple[Kube, Proxy], fence: Fence, kube: Admin, namespace: str
) -> None:
    fence.close()

    found = await fenced[0].get(CONFIG_MAP, namespace, "kube-root-ca.crt")

    assert found["metadata"]["namespace"] == namespace


async def test_a_write_ends_before_the_lease_can_belong_to_another(
    fenced: tuple[Kube, Proxy], clock: Clock, kube: Admin, namespace: str
) -> None:
    client, proxy = fenced
    await client.get(CONFIG_MAP, namespace, "kube-root-ca.crt")  # a connection stands
    clock.now += 9.5
    proxy.hold(held=True)
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(UnavailableError, match="no answer in time"):
        await client.apply(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)

    assert loop.time() - began < 7, "5.5 s of the Lease were left"


async def test_a_late_write_meets_a_conflict(
    fenced: tuple[Kube, Proxy], kube: Admin, namespace: str
) -> None:
    client, _ = fenced
    made = await client.apply(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)
    old = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    kube.patch(CONFIG_MAP, "probe", namespace, {"data": {"a": "changed by a newer leader"}})

    with pytest.raises(ConflictError):
        await client.apply(config_map(namespace, **old), CONFIG_MAP, manager=FIELD_MANAGER)
    with pytest.raises(ConflictError):
        await client.delete(
            ObjectRef(CONFIG_MAP, namespace, "probe", old["uid"], old["resourceVersion"])
        )

    assert kube.have(CONFIG_MAP, "probe", namespace)["data"] == {"a": "changed by a newer leader"}


async def test_an_object_that_was_made_again_is_not_mistaken_for_the_old_one(
    fenced: tuple[Kube, Proxy], kube: Admin, namespace: str
) -> None:
    client, _ = fenced
    made = await client.apply(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)
    kube.delete(CONFIG_MAP, "probe", namespace)

    with pytest.raises(ConflictError):
        await client.apply(
            config_map(namespace, uid=made["metadata"]["uid"]), CONFIG_MAP, manager=FIELD_MANAGER
        )

    assert kube.get(CONFIG_MAP, "probe", namespace) is None


async def test_a_creation_takes_nothing_over_and_an_apply_does(
    fenced: tuple[Kube, Proxy], kube: Admin, namespace: str
) -> None:
    client, _ = fenced
    kube.apply({**config_map(namespace), "data": {"a": "theirs"}})

    with pytest.raises(ConflictError):
        await client.create(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)
    await client.apply(config_map(namespace), CONFIG_MAP, manager=FIELD_MANAGER)

    assert kube.have(CONFIG_MAP, "probe", namespace)["data"] == {"a": "b"}


async def test_what_does_not_exist_and_what_is_wrong_have_their_own_errors(
    fenced: tuple[Kube, Proxy], kube: Admin, namespace: str
) -> None:
    client, _ = fenced

    with pytest.raises(NotFoundError, match='configmaps "none" not found'):
        await client.get(CONFIG_MAP, namespace, "none")
    with pytest.raises(InvalidError, match="apply ConfigMap"):
        await client.apply(
            {**config_map(namespace), "data": {"a/b": "c"}}, CONFIG_MAP, manager=FIELD_MANAGER
        )


async def test_an_api_server_that_answers_nothing_is_unavailable(
    plane: ControlPlane, kube: Admin, namespace: str
) -> None:
    with proxied(plane.api_port) as proxy:
        path = plane.kubeconfig(FIRST, server=f"https://127.0.0.1:{proxy.port}")
        async with Kube(await configured(path), call_seconds=0.5) as client:
            proxy.hold(held=True)
            with pytest.raises(UnavailableError, match="no answer in time"):
                await client.get(CONFIG_MAP, namespace, "kube-root-ca.crt")


async def test_a_list_is_read_in_pages(
    fenced: tuple[Kube, Proxy], kube: Admin, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = fenced
    monkeypatch.setattr("kindling_operator.kube.client.PAGE", 2)
    kube.apply(
        *(
            {**config_map(namespace), "metadata": {"name": f"m{n}", "namespace": namespace}}
            for n in range(5)
        )
    )

    found = [
        each async for each in client.list(CONFIG_MAP, namespace=namespace, metadata_only=True)
    ]

    assert sorted(each["metadata"]["name"] for each in found) == [
        "kube-root-ca.crt",
        "m0",
        "m1",
        "m2",
        "m3",
        "m4",
    ]
    assert all("data" not in each and each["metadata"]["uid"] for each in found)
