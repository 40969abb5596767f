"""Two operators: never both write, whatever happens to the one that leads."""

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from tests.chaos.conftest import FIRST, SECOND, StartOperator
from tests.chaos.stories import NAME, SECONDS, apply, made
from tests.support import audit
from tests.support.apiserver import ControlPlane
from tests.support.audit import LEASES, Request
from tests.support.faulty_operator import FREEZE_AT
from tests.support.kube import MODEL, Kube
from tests.support.operator_process import FAULTY_ENTRY, LEASE_NAME, NAMESPACE, OperatorProcess
from tests.support.proxy import proxied
from tests.support.roles import roles
from tests.support.waiting import until

from kindling_operator.kube.kinds import LEASE
from kindling_operator.model.names import DEPLOYMENT

pytestmark = pytest.mark.cluster

USERS = (FIRST, SECOND)
LONGER_SECONDS = 2
"""How much longer the frozen one sleeps after another has begun to lead."""
ROUNDS = 4


@contextlib.contextmanager
def changing(kube: Kube, namespace: str) -> Iterator[None]:
    """Somebody who changes the model all the time, so that a leader always has to write."""
    over = threading.Event()

    def change() -> None:
        replicas = 0
        while not over.wait(0.1):
            replicas = (replicas + 1) % 3
            patch = {"spec": {"replicas": replicas}}
            kube.patch(MODEL, NAME, namespace, patch)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=30)


def overlaps(plane: ControlPlane, *, start: int) -> list[str]:
    """Writes by one operator while the Lease belonged to another, since a mark.

    The Lease belongs to whoever wrote it last; all times are the API server's own.
    """
    found = []
    holder = ""
    requests = [r for r in audit.requests(plane.audit_log, start=start) if r.user in USERS]
    for request in sorted(requests, key=_when):
        if request.resource == LEASES and request.writes and request.code < 300:
            holder = request.user
        elif holder and _succeeded(request) and request.user != holder:
            found.append(f"{request.received} {request.user} {request.verb} {request.uri}")
    return found


def _when(request: Request) -> datetime:
    """A Lease belongs to its new holder from the end of the request on, a write counts from its
    arrival."""
    return request.done if request.resource == LEASES else request.received


def _succeeded(request: Request) -> bool:
    return request.writes and request.resource != LEASES and request.code < 300


def writers(plane: ControlPlane, *, start: int) -> set[str]:
    """Who has written objects since a mark."""
    found = (audit.written(plane.audit_log, user, start=start) for user in USERS)
    return {request.user for requests in found for request in requests if _succeeded(request)}


@pytest.fixture
def pair(start: StartOperator, kube: Kube, namespace: str) -> dict[str, OperatorProcess]:
    """Two operators, of which the first leads, and a model."""
    first = start(FIRST)
    first.wait_leading(kube)
    second = start(SECOND)
    until("the second to look on", lambda: second.health()[0] == 200, seconds=SECONDS)
    apply(kube, namespace)
    made(kube, namespace)
    return {FIRST: first, SECOND: second}


def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes(
    pair: dict[str, OperatorProcess], plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    mark = audit.end(plane.audit_log)
    with changing(kube, namespace):
        for turn in range(ROUNDS):
            leader, other = (FIRST, SECOND) if turn % 2 == 0 else (SECOND, FIRST)
            time.sleep(1)
            pair[leader].freeze(frozen=True)
            pair[other].wait_leading(kube)
            time.sleep(LONGER_SECONDS)
            pair[leader].freeze(frozen=False)
            time.sleep(2)
            assert pair[other].leads(kube)

    assert writers(plane, start=mark) == set(USERS), "both have led, so both must have written"
    assert overlaps(plane, start=mark) == []
    assert [pair[user].ended for user in USERS] == [None, None]
    assert [pair[user].metric("kindling_leading") for user in USERS].count(1.0) == 1


@pytest.mark.parametrize("number", [2, 6])
def test_a_write_that_was_decided_before_a_long_sleep_is_not_sent_after_it(
    start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str, number: int
) -> None:
    first = start(FIRST, entry=FAULTY_ENTRY, settings={FREEZE_AT: str(number)})
    first.wait_leading(kube)
    second = start(SECOND)
    apply(kube, namespace)
    until("the first to be stopped", lambda: first.frozen, seconds=SECONDS, every=0.1)
    second.wait_leading(kube)
    made(kube, namespace)
    mark = audit.end(plane.audit_log)

    first.freeze(frozen=False)
    time.sleep(3)

    assert second.leads(kube)
    assert audit.written(plane.audit_log, FIRST, start=mark) == [], "not even one that is refused"
    assert first.ended is None


def test_a_leader_that_is_cut_off_stops_before_another_leads(
    start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    mark = audit.end(plane.audit_log)
    with proxied(plane.api_port) as proxy:
        first = start(FIRST, server=f"https://127.0.0.1:{proxy.port}")
        first.wait_leading(kube)
        second = start(SECOND)
        apply(kube, namespace)
        made(kube, namespace)
        with changing(kube, namespace):
            time.sleep(1)
            proxy.hold(held=True)
            second.wait_leading(kube)
            time.sleep(1)
            proxy.hold(held=False)
            time.sleep(3)
            assert second.leads(kube)

    assert writers(plane, start=mark) == set(USERS)
    assert overlaps(plane, start=mark) == []
    assert first.ended is None, "it follows now"


def test_a_lease_that_somebody_deletes_makes_the_leader_stop_and_one_lead_again(
    pair: dict[str, OperatorProcess], plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    mark = audit.end(plane.audit_log)
    with changing(kube, namespace):
        time.sleep(1)
        kube.delete(LEASE, LEASE_NAME, NAMESPACE)
        until(
            "one of the two to lead",
            lambda: any(pair[user].leads(kube) for user in USERS),
            seconds=SECONDS,
            every=0.1,
        )
        time.sleep(2)

    assert overlaps(plane, start=mark) == []


def test_a_killed_leader_is_replaced_and_the_work_goes_on(
    pair: dict[str, OperatorProcess], kube: Kube, namespace: str
) -> None:
    pair[FIRST].kill()
    pair[SECOND].wait_leading(kube)

    kube.kubectl("scale", f"im/{NAME}", "-n", namespace, "--replicas=2")

    def scaled() -> bool:
        (found,) = kube.find(DEPLOYMENT, namespace)
        return bool(found["spec"]["replicas"] == 2)

    until("the Deployment to have 2 replicas", scaled, seconds=SECONDS, every=0.1)


def test_an_operator_that_may_not_have_the_lease_says_so(start: StartOperator, kube: Kube) -> None:
    granted = roles(FIRST, SECOND, namespace=NAMESPACE, lease=LEASE_NAME)
    kube.kubectl("delete", "rolebinding", "kindling-operator", "-n", NAMESPACE)
    try:
        operator = start()
        until(
            "the operator to have said why it does not lead",
            lambda: any(
                "the Lease was not renewed" in each["message"] for each in operator.lines()
            ),
            seconds=SECONDS,
        )
        assert not operator.leads(kube)
        assert operator.metric("kindling_leading") == 0
    finally:
        kube.apply(*granted)
