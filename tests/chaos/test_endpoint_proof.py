"""A new replica whose answers the operator cannot have: nobody leaves, and the object says why."""

import pytest
from tests.chaos.conftest import StartOperator
from tests.chaos.stories import NAME, SECONDS, ready
from tests.support import kubelet
from tests.support.kube import MODEL, POD, Kube, conditions
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

NOWHERE = "192.0.2.9"
"""An address for documentation (RFC 5737): nothing answers there. An endpoint must not be of the
loopback network."""


def test_old_replicas_stay_while_no_new_pod_can_be_asked(
    start: StartOperator, kube: Kube, namespace: str
) -> None:
    start(settings={"KINDLING_PROVE_ENDPOINT": "true"}).wait_leading(kube)
    ready(kube, namespace)
    (old,) = kubelet.serving_pods(kube, NAME, namespace, count=1)
    kube.patch(MODEL, NAME, namespace, {"spec": {"serving": {"contextLength": 1024}}})
    pods = kubelet.serving_pods(kube, NAME, namespace, count=2)
    (new,) = (pod for pod in pods if pod["metadata"]["uid"] != old["metadata"]["uid"])

    kubelet.run(kube, new, ready=True, address=NOWHERE)

    def told() -> str | None:
        message = conditions(kube.have(MODEL, NAME, namespace))["Progressing"].message
        return message if "because" in message else None

    message = until(
        "the reason in Progressing", told, seconds=SECONDS, show=lambda: kube.told(NAME, namespace)
    )
    assert f"because http://{NOWHERE}:9400 " in message
    assert "allow the operator's pods to reach the model's at port 9400" in message
    found = conditions(kube.have(MODEL, NAME, namespace))
    assert (found["Progressing"].status, found["Progressing"].reason) == ("True", "RollingOut")
    assert found["Ready"].status == "True"
    selector = f"{names.LABEL_MODEL}={NAME}"
    assert len(kube.find(POD, namespace, selector=selector)) == 2
    assert len(kube.find(names.DEPLOYMENT, namespace, selector=selector)) == 2
