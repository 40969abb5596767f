"""The operator is killed between any two of its writes; the next one finishes what it left."""

import pytest
from tests.chaos.conftest import FIRST, SECOND, StartOperator
from tests.chaos.stories import NAME, SECONDS, apply, made, serve, settle
from tests.support import audit, kubelet
from tests.support.apiserver import ControlPlane
from tests.support.faulty_operator import KILL_AT
from tests.support.kube import COMMON_KINDS, MODEL, Kube, Object, conditions, owner_uid
from tests.support.operator_process import FAULTY_ENTRY, OperatorProcess
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

CREATION_WRITES = len(COMMON_KINDS) + 2
"""Each child once, then status and the first event."""
ROLLOUT_WRITES = 6
"""A change makes a ControllerRevision, a ConfigMap and a Deployment, then status and event, and
the first deletion of what the change has superseded."""


def killed_at(start: StartOperator, number: int) -> OperatorProcess:
    return start(entry=FAULTY_ENTRY, settings={KILL_AT: str(number)})


def whole(kube: Kube, namespace: str) -> None:
    """Everything that belongs to the model is there once, and nothing else carries its label."""
    made(kube, namespace)
    serve(kube, namespace)
    found = kube.have(MODEL, NAME, namespace)
    revision = found["status"]["plan"]["revision"]
    for kind in COMMON_KINDS:
        (child,) = kube.find(kind, namespace, selector=f"{names.LABEL_MODEL}={NAME}")
        assert child["metadata"]["name"] in {NAME, revision}
        assert owner_uid(child) == found["metadata"]["uid"]


@pytest.mark.parametrize("number", range(1, CREATION_WRITES + 1))
def test_killed_while_it_creates(
    start: StartOperator, plane: ControlPlane, kube: Kube, namespace: str, number: int
) -> None:
    mark = audit.end(plane.audit_log)
    dying = killed_at(start, number)
    dying.wait_leading(kube)
    start(SECOND)
    apply(kube, namespace)

    assert dying.wait(seconds=SECONDS) == -9, dying.tail()
    assert len(audit.written(plane.audit_log, FIRST, start=mark)) == number - 1

    whole(kube, namespace)


@pytest.fixture
def changed(operator: OperatorProcess, plane: ControlPlane, kube: Kube, namespace: str) -> str:
    """A model that serves, whose spec has changed while no operator ran; its old revision."""
    apply(kube, namespace)
    serve(kube, namespace)
    settle(plane, FIRST)
    old = str(kube.have(MODEL, NAME, namespace)["status"]["plan"]["revision"])
    assert operator.stop() == 0
    kube.patch(MODEL, NAME, namespace, {"spec": {"serving": {"contextLength": 1024}}})
    return old


@pytest.mark.parametrize("number", range(1, ROLLOUT_WRITES + 1))
def test_killed_while_it_rolls_out(
    changed: str, start: StartOperator, kube: Kube, namespace: str, number: int
) -> None:
    with kubelet.playing(kube, namespace):
        dying = killed_at(start, number)
        assert dying.wait(seconds=SECONDS) == -9, dying.tail()
        start(SECOND).wait_leading(kube)
        found = until(
            "the rollout to be complete",
            lambda: _complete(kube, namespace, old=changed),
            seconds=SECONDS,
            show=lambda: kube.told(NAME, namespace),
        )

    assert conditions(found)["Ready"].status == "True"
    deployments = kube.find(names.DEPLOYMENT, namespace)
    assert [each["metadata"]["name"] for each in deployments] == [
        found["status"]["plan"]["revision"]
    ]


def _complete(kube: Kube, namespace: str, *, old: str) -> Object | None:
    found = kube.have(MODEL, NAME, namespace)
    progressing = conditions(found)["Progressing"]
    done = found["status"]["plan"]["revision"] != old and progressing.reason == "Complete"
    return found if done else None
