"""A kind of somebody else's CRD that comes and goes while the operator runs."""

from collections.abc import Iterator
from typing import Final

import pytest
from tests.chaos.conftest import FIRST, StartOperator
from tests.chaos.stories import SECONDS, apply, made
from tests.support import audit
from tests.support.apiserver import ControlPlane
from tests.support.kube import CRD, Kube, Object
from tests.support.waiting import until

from kindling_operator.model.names import LEADER_WORKER_SET
from kindling_operator.reconcile.watchdog import KINDS_SECONDS

pytestmark = pytest.mark.cluster

CRD_NAME: Final = f"{LEADER_WORKER_SET.plural}.{LEADER_WORKER_SET.group}"
NOTICE_SECONDS: Final = KINDS_SECONDS + 30

DEFINITION: Final[Object] = {
    "apiVersion": CRD.api_version,
    "kind": CRD.kind,
    "metadata": {"name": CRD_NAME},
    "spec": {
        "group": LEADER_WORKER_SET.group,
        "scope": "Namespaced",
        "names": {
            "kind": LEADER_WORKER_SET.kind,
            "plural": LEADER_WORKER_SET.plural,
            "singular": "leaderworkerset",
        },
        "versions": [
            {
                "name": LEADER_WORKER_SET.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""Enough for the API server to serve the kind; no controller of it runs here."""


@pytest.fixture
def absent(kube: Kube) -> Iterator[None]:
    """The API server does not know the kind, before the test and after it."""
    remove(kube)
    yield
    remove(kube)


def remove(kube: Kube) -> None:
    kube.delete(CRD, CRD_NAME)
    kube.wait_gone(CRD, CRD_NAME, seconds=SECONDS)


def is_watched(plane: ControlPlane, *, start: int) -> bool:
    """Whether the operator has watched the kind since a mark."""
    return any(
        request.user == FIRST
        and request.verb == "watch"
        and request.resource == LEADER_WORKER_SET.plural
        for request in audit.requests(plane.audit_log, start=start)
    )


def test_an_absent_kind_stops_nothing_and_is_noticed_when_it_comes_and_goes(
    absent: None, start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    mark = audit.end(plane.audit_log)
    without = start()
    without.wait_leading(kube)
    apply(kube, namespace)
    made(kube, namespace)
    assert not is_watched(plane, start=mark)
    assert without.health()[0] == 200

    # 1. It comes: the process ends in order, and the next one watches it.
    kube.apply(DEFINITION)
    assert without.wait(seconds=NOTICE_SECONDS) == 0
    mark = audit.end(plane.audit_log)
    beside = start()
    beside.wait_leading(kube)
    until("the kind to be watched", lambda: is_watched(plane, start=mark), seconds=SECONDS)

    # 2. It goes: again the process ends, and the next one does without.
    remove(kube)
    beside.wait(seconds=NOTICE_SECONDS)
    again = start()
    again.wait_leading(kube)
    assert again.ended is None
