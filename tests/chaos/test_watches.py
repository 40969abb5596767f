"""What is watched and how, and what happens when the watches break."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.chaos.conftest import FIRST, StartOperator
from tests.chaos.stories import NAME, SECONDS, URI, apply, made
from tests.support import audit, manifests
from tests.support.apiserver import ControlPlane
from tests.support.audit import Request
from tests.support.kube import AWAY, COMMON_KINDS, MODEL, Kube
from tests.support.manifests import tiny
from tests.support.operator_process import LEASE_NAME, NAMESPACE, OperatorProcess
from tests.support.proxy import proxied
from tests.support.waiting import until

from kindling_operator.kube.kinds import BESIDE_KINDS
from kindling_operator.model.names import LABEL_MODEL, SERVICE
from kindling_operator.observe.beside import FOREIGN
from kindling_operator.observe.watched import PODS, WATCHED

pytestmark = pytest.mark.cluster

DOWN_SECONDS = 20
PRESENT = tuple(watched for watched in WATCHED if not watched.optional)
"""The kinds that this control plane has: nobody installed a CRD but ours."""


def watches(plane: ControlPlane, *, start: int) -> dict[str, list[dict[str, list[str]]]]:
    """The parameters of the operator's watches since a mark, by resource."""
    found: dict[str, list[dict[str, list[str]]]] = {}
    for request in audit.requests(plane.audit_log, start=start):
        if request.user == FIRST and request.verb == "watch":
            found.setdefault(request.resource, []).append(_query(request))
    return found


def _query(request: Request) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.uri).query)


def test_the_api_server_selects_what_is_sent(
    start: StartOperator, plane: ControlPlane, kube: Kube
) -> None:
    mark = audit.end(plane.audit_log)
    start().wait_leading(kube)

    beside = {kind.plural for kind in BESIDE_KINDS}
    kinds = {"leases", *beside, *(watched.id for watched in PRESENT)}
    found = until(
        "every kind to be watched",
        lambda: seen if set(seen := watches(plane, start=mark)) == kinds else None,
        seconds=SECONDS,
    )
    for watched in PRESENT:
        (*selectors,) = (query.get("labelSelector", [""])[0] for query in found[watched.id])
        expected = {watched.selector} if watched is not PODS else {LABEL_MODEL, FOREIGN}
        assert set(selectors) == expected, watched.id
    for resource in beside:
        assert all(query["allowWatchBookmarks"] == ["true"] for query in found[resource])
    assert [query["fieldSelector"] for query in found["leases"]] == [
        [f"metadata.name={LEASE_NAME},metadata.namespace={NAMESPACE}"]
    ]
    for kind in COMMON_KINDS:
        assert found[kind.plural][0]["sendInitialEvents"] == ["true"]


def test_models_are_served_after_every_connection_was_cut(
    start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    with proxied(plane.api_port) as proxy:
        operator = start(server=f"https://127.0.0.1:{proxy.port}")
        operator.wait_leading(kube)
        time.sleep(2)  # past its start: the watches stand

        assert proxy.cut() >= len(PRESENT)
        apply(kube, namespace)

        made(kube, namespace)
        assert operator.ended is None
        assert operator.health()[0] == 200


def test_models_are_served_after_the_api_server_was_killed_and_away(
    operator: OperatorProcess, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    plane.kill_part("kube-apiserver")
    time.sleep(DOWN_SECONDS)
    assert operator.ended is None
    assert operator.health()[0] == 200, "an API server that is away is no reason to restart"
    plane.restart("kube-apiserver", "kube-controller-manager")

    until(
        "kubectl apply to work again",
        lambda: kube.apply(tiny(NAME, namespace, uri=URI)),
        seconds=SECONDS,
        forgive=(*AWAY, AssertionError),
    )

    made(kube, namespace)
    assert operator.ended is None
    assert operator.health()[0] == 200


def test_a_child_that_was_deleted_unseen_comes_back(
    start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    """The API server forgets its history while the operator is cut off: "410 Gone", and no event
    will ever tell what was deleted meanwhile."""
    with proxied(plane.api_port) as proxy:
        operator = start(server=f"https://127.0.0.1:{proxy.port}")
        operator.wait_leading(kube)
        apply(kube, namespace)
        made(kube, namespace)
        service = kube.have(SERVICE, NAME, namespace)
        proxy.hold(held=True)
        proxy.cut()

        kube.delete(SERVICE, NAME, namespace)
        plane.restart("kube-apiserver", "kube-controller-manager")
        proxy.hold(held=False)
        proxy.cut()

        def back() -> bool:
            found = kube.get(SERVICE, NAME, namespace)
            return found is not None and found["metadata"]["uid"] != service["metadata"]["uid"]

        until("the Service to be back", back, seconds=SECONDS, forgive=AWAY)
        assert operator.ended is None
        told = [line["message"] for line in operator.lines()]
        assert "1 services were deleted and no watch said so" in told, "it was seen after all"


def test_only_the_chosen_namespaces_are_served(
    start: StartOperator, kube: Kube, namespace: str
) -> None:
    other = f"{namespace}-other"
    kube.apply(manifests.namespace(other))
    operator = start(settings={"KINDLING_WATCH_NAMESPACES": namespace})
    operator.wait_leading(kube)

    apply(kube, other)
    apply(kube, namespace)
    made(kube, namespace)

    assert kube.children(NAME, other) == []
    assert "status" not in kube.have(MODEL, NAME, other)
    assert operator.health()[0] == 200
    kube.kubectl("delete", "namespace", other, "--wait=false")
