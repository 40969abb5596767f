"""What the user reads when a pass cannot do its work, against a real API server."""

import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
from msgspec import structs
from tests.chaos.conftest import FIRST
from tests.chaos.stories import NAME, SECONDS, URI, apply, made
from tests.support import audit
from tests.support.apiserver import ControlPlane
from tests.support.clients import configured
from tests.support.kube import MODEL, Object, conditions
from tests.support.kube import Kube as Admin
from tests.support.manifests import tiny
from tests.support.observed import ENVIRONMENT, PLAN, decision, revision
from tests.support.operator_process import OperatorProcess

from kindling_operator.kube.client import Kube
from kindling_operator.model.names import Key, Kind
from kindling_operator.model.plan import Decision, EnginePlan
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.watched import MODELS
from kindling_operator.reconcile.loop import Ended, Reconciler
from kindling_operator.report.events import Recorder
from kindling_operator.report.metrics import Metrics

pytestmark = pytest.mark.cluster

WEBHOOK = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
)

Decide = Callable[[Snapshot, Key], Decision]


def unreachable_webhook(namespace: str) -> Object:
    """An admission webhook for the namespace's ConfigMaps that nobody answers for."""
    return {
        "apiVersion": WEBHOOK.api_version,
        "kind": WEBHOOK.kind,
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "away.kindling.test",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                        "operations": ["CREATE"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }


def test_a_write_that_keeps_failing_is_told_and_is_made_once_it_can_be(
    operator: OperatorProcess, kube: Admin, namespace: str
) -> None:
    kube.apply(unreachable_webhook(namespace))
    try:
        apply(kube, namespace)
        kube.wait_condition(NAME, namespace, type="Accepted", seconds=SECONDS)
        found = kube.wait_condition(
            NAME,
            namespace,
            type="Progressing",
            status="False",
            reason="ApplyRefused",
            seconds=60,
        )
        told = conditions(found)
    finally:
        kube.kubectl("delete", WEBHOOK.plural, namespace)

    assert "failed calling webhook" in told["Progressing"].message
    assert told["Ready"].reason == "ApplyRefused"
    made(kube, namespace, seconds=60)
    kube.wait_condition(NAME, namespace, type="Progressing", seconds=SECONDS)


class Pass:
    """One operator's passes over one model, as often as a test asks for one."""

    def __init__(self, kube: Kube, admin: Admin, key: Key, plan: Decide) -> None:
        self._admin = admin
        self._key = key
        self._cache = Cache(ENVIRONMENT)
        self._reconciler = Reconciler(
            kube,
            self._cache,
            Recorder(kube, instance="test"),
            Metrics(),
            plan=plan,
            render=lambda _snapshot, _decision: (),
            now=lambda: datetime.now(UTC),
        )

    async def run(self) -> tuple[Ended, Object]:
        """Look at the model as it is now and do one pass; the model after it."""
        body = self._admin.have(MODEL, self._key.name, self._key.namespace)
        entry = MODELS.entry(body)
        assert entry is not None
        self._cache.attach({MODELS.id: {entry.uid: [entry]}})
        self._cache.touch(MODELS)
        result = await self._reconciler.reconcile(self._key)
        return result.ended, self._admin.have(MODEL, self._key.name, self._key.namespace)


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Kube]:
    async with Kube(await configured(plane.kubeconfig(FIRST))) as found:
        yield found


@pytest.fixture
def key(kube: Admin, namespace: str) -> Key:
    kube.apply(tiny(NAME, namespace, uri=URI))
    return Key(namespace, NAME)


async def test_a_bug_is_told_in_status_once_and_logged_once(
    client: Kube,
    plane: ControlPlane,
    kube: Admin,
    key: Key,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_snapshot: Snapshot, _key: Key) -> Decision:
        raise ZeroDivisionError("a bug of the planner")

    passes = Pass(client, kube, key, broken)
    mark = audit.end(plane.audit_log)
    with caplog.at_level(logging.ERROR):
        ended, found = await passes.run()
        again, after = await passes.run()

    assert (ended, again) == (Ended.ERROR, Ended.ERROR)
    told = conditions(found)
    assert told["Accepted"].reason == "InvalidSpec"
    assert "a bug of the planner" in told["Accepted"].message
    assert told["Ready"].status == "False"
    assert after["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    assert len(audit.written(plane.audit_log, FIRST, start=mark)) == 1
    (record,) = caplog.records
    assert record.exc_info is not None


async def test_a_status_that_the_api_server_refuses_is_replaced_by_the_least(
    client: Kube, kube: Admin, key: Key, caplog: pytest.LogCaptureFixture
) -> None:
    plan: EnginePlan = structs.replace(PLAN, checkpoint="x" * 100)

    def unwritable(_snapshot: Snapshot, key: Key) -> Decision:
        return decision((revision(plan=plan), 1), key=key)

    passes = Pass(client, kube, key, unwritable)
    with caplog.at_level(logging.ERROR):
        ended, found = await passes.run()
        await passes.run()

    assert ended is Ended.REFUSED
    accepted = conditions(found)["Accepted"]
    assert (accepted.status, accepted.reason) == ("False", "InvalidSpec")
    assert "checkpoint" in accepted.message
    assert len(caplog.records) == 1


async def test_a_status_that_was_decided_on_an_older_object_is_not_written(
    client: Kube, kube: Admin, key: Key
) -> None:
    def late(_snapshot: Snapshot, key: Key) -> Decision:
        kube.patch(MODEL, NAME, key.namespace, {"metadata": {"labels": {"moved": "on"}}})
        return decision((revision(), 1), key=key)

    ended, found = await Pass(client, kube, key, late).run()

    assert ended is Ended.RETRY
    assert "status" not in found


def test_a_refused_service_leaves_no_replica_that_waits_for_the_scheduler(
    operator: OperatorProcess, kube: Admin, namespace: str
) -> None:
    """What a replica needs is made first, so that without it there is no Deployment either."""
    quota = {"name": "no-services", "namespace": namespace}
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": quota,
            "spec": {"hard": {"services": "0"}},
        }
    )
    wait = ("wait", "--for=jsonpath={.status.hard.services}=0", "--timeout=60s")
    kube.kubectl(*wait, "resourcequota/no-services", "-n", namespace)

    apply(kube, namespace)
    found = kube.wait_condition(
        NAME, namespace, type="Ready", status="False", reason="ApplyRefused", seconds=SECONDS
    )

    assert "exceeded quota: no-services" in conditions(found)["Progressing"].message
    assert not [child for child in kube.children(NAME, namespace) if child.startswith("Deployment")]
    scheduled = conditions(found)["Scheduled"]
    assert (scheduled.status, scheduled.reason) == ("Unknown", "PodsPending")
    assert scheduled.message == (
        f"1 of 1 replicas do not exist: Deployment {found['status']['plan']['revision']} is made"
        " after what the cluster refuses, see the condition Progressing."
    )

    kube.kubectl("delete", "resourcequota", "no-services", "-n", namespace)
    made(kube, namespace)
