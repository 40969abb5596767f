"""An operator that is told to stop in the middle of a pass."""

import os
import signal
from typing import Final

import pytest
from tests.chaos.conftest import FIRST, StartOperator
from tests.chaos.stories import NAME, SECONDS, apply, made
from tests.support import audit
from tests.support.apiserver import ControlPlane
from tests.support.audit import LEASES
from tests.support.faulty_operator import FREEZE_AT
from tests.support.kube import MODEL, Kube, conditions
from tests.support.operator_process import FAULTY_ENTRY
from tests.support.waiting import until

pytestmark = pytest.mark.cluster

PATIENT_LEASE: Final = {"KINDLING_LEASE_DURATION": "120s", "KINDLING_RENEW_DEADLINE": "100s"}
"""The process stands still for as long as this test needs to see it: its fence stays open."""


def test_a_pass_in_work_ends_before_the_lease_is_given_up(
    start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str
) -> None:
    stopping = start(entry=FAULTY_ENTRY, settings={FREEZE_AT: "1", **PATIENT_LEASE})
    stopping.wait_leading(kube)
    mark = audit.end(plane.audit_log)
    apply(kube, namespace)
    until("the first write", lambda: stopping.frozen, seconds=SECONDS, every=0.05)
    # The signal waits until the process goes on, and is then heard while that write is under way.
    os.kill(stopping.pid, signal.SIGTERM)
    stopping.freeze(frozen=False)

    assert stopping.wait(seconds=SECONDS) == 0, stopping.tail()
    made(kube, namespace)
    assert conditions(kube.have(MODEL, NAME, namespace))["Accepted"].status == "True"
    released = max(
        each.received
        for each in audit.requests(plane.audit_log, start=mark)
        if each.user == FIRST and each.resource == LEASES and each.writes
    )
    assert all(each.done < released for each in audit.written(plane.audit_log, FIRST, start=mark))
