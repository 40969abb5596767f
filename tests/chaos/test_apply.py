"""One pass of apply against the real API, where the world moves between look and write."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.chaos.conftest import FIRST
from tests.chaos.stories import NAME, URI
from tests.support.apiserver import ControlPlane
from tests.support.clients import configured
from tests.support.kube import MODEL, Object
from tests.support.kube import Kube as Admin
from tests.support.manifests import tiny
from tests.support.observed import decision, model, revision, snapshot

from kindling_operator.apply.executor import execute
from kindling_operator.kube.client import Body, Kube
from kindling_operator.model import names
from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    SERVICE,
    SERVICE_ACCOUNT,
    Key,
    Kind,
)
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.observe.parse import child

pytestmark = pytest.mark.cluster

CHILD = "tiny-1111111111"


class Interrupted(Kube):
    """A client that lets somebody else act between the look at a name and the write."""

    foreign: Object | None = None
    admin: Admin

    async def get(self, kind: Kind, namespace: str, name: str) -> Body:
        """As always; then somebody takes the name."""
        try:
            return await super().get(kind, namespace, name)
        finally:
            if self.foreign is not None:
                self.admin.apply(self.foreign)


@pytest.fixture
async def client(plane: ControlPlane, kube: Admin) -> AsyncIterator[Interrupted]:
    async with Interrupted(await configured(plane.kubeconfig(FIRST))) as made:
        made.admin = kube
        yield made


@pytest.fixture
def seen(kube: Admin, namespace: str) -> Snapshot:
    """The model exists and has no children yet."""
    kube.apply(tiny(NAME, namespace, uri=URI))
    uid = kube.have(MODEL, NAME, namespace)["metadata"]["uid"]
    return snapshot(model(Key(namespace, NAME), uid=uid))


def config_map(seen: Snapshot, **changes: Any) -> Object:
    """A child as render makes it."""
    (owner,) = seen.models.values()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CHILD,
            "namespace": owner.key.namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_MODEL: NAME},
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.KIND,
                    "name": NAME,
                    "uid": owner.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "data": {"plan.json": "{}"},
        **changes,
    }


async def apply(client: Kube, seen: Snapshot, *manifests: Object) -> Outcome:
    (key,) = seen.models
    made = decision((revision(), 1), key=key)
    return await execute(client, seen, made, manifests, counted=lambda _kind, _result: None)


def shown(seen: Snapshot, body: Object) -> Snapshot:
    """The snapshot once the watch has delivered a child."""
    (key,) = seen.models
    return replace(seen, children={key: (child(body, CONFIG_MAP),)})


async def test_any_text_arrives_as_it_was_sent(client: Interrupted, namespace: str) -> None:
    """Applies are YAML to the API server: gloo ends its errors with a picture, users write them."""
    text = "".join(map(chr, [*range(0x20, 0x180), 0x2028, 0xFEFF, 0xFFFD, 0x1F3D6, 0x10FFFF]))
    said = {"text": f'{text}\t\n\r\\ud83d "', "b": "\U0001f600"}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "said", "namespace": namespace},
        "data": said,
    }

    await client.apply(body, CONFIG_MAP, manager="test")

    assert (await client.get(CONFIG_MAP, namespace, "said"))["data"] == said


async def test_what_is_there_already_is_not_written(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    first = await apply(client, seen, config_map(seen))
    stored = kube.have(CONFIG_MAP, CHILD, namespace)
    second = await apply(client, shown(seen, stored), config_map(seen))

    assert [ref.name for ref in first.applied] == [CHILD]
    assert (second.applied, second.unchanged, second.retry) == ((), 1, None)


async def test_a_child_that_the_watch_does_not_show_yet_is_recognised_as_ours(
    client: Interrupted, kube: Admin, seen: Snapshot
) -> None:
    await apply(client, seen, config_map(seen))

    again = await apply(client, seen, config_map(seen, data={"plan.json": "{1}"}))

    assert (again.verdict, again.retry) == (None, None)
    assert [ref.name for ref in again.applied] == [CHILD]


async def test_an_object_that_somebody_makes_between_look_and_write_is_not_taken_over(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    client.foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CHILD, "namespace": namespace},
        "data": {"plan.json": "theirs"},
    }
    outcome = await apply(client, seen, config_map(seen))

    assert outcome.retry is not None
    assert outcome.retry.reason == "Conflict"
    found = kube.have(CONFIG_MAP, CHILD, namespace)
    assert found["data"] == {"plan.json": "theirs"}
    assert "ownerReferences" not in found["metadata"]

    client.foreign = None
    second = await apply(client, seen, config_map(seen))
    assert second.verdict is not None
    assert second.verdict.reason is Reason.NAME_CONFLICT


async def test_a_bare_account_that_somebody_makes_in_between_is_not_adopted(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    """It has no field that an apply could conflict with."""
    bare = {"name": CHILD, "namespace": namespace}
    client.foreign = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": bare}
    account = {**config_map(seen), "kind": "ServiceAccount"}
    account.pop("data")
    outcome = await apply(client, seen, account)

    assert outcome.retry is not None
    assert outcome.retry.reason == "Conflict"
    found = kube.have(SERVICE_ACCOUNT, CHILD, namespace)["metadata"]
    assert not {"ownerReferences", "labels"} & set(found)

    client.foreign = None
    second = await apply(client, seen, account)
    assert second.verdict is not None
    assert second.verdict.reason is Reason.NAME_CONFLICT


def controller_revision(seen: Snapshot, **data: Any) -> Object:
    """A child whose data may not change; the keys are not in alphabetical order."""
    base = {**config_map(seen), "apiVersion": "apps/v1", "kind": "ControllerRevision"}
    return {**base, "revision": 1, "data": {"plan": {"b": "<1>", "a": 1}, "inputs": "x", **data}}


async def test_a_stored_plan_can_be_applied_again_with_another_annotation(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    await apply(client, seen, controller_revision(seen))
    served = controller_revision(seen)
    served["metadata"] = {**served["metadata"], "annotations": {names.ANNOTATION_SERVED: "true"}}

    outcome = await apply(client, seen, served)

    assert (outcome.retry, outcome.verdict) == (None, None)
    found = kube.have(CONTROLLER_REVISION, CHILD, namespace)["metadata"]
    assert found["annotations"][names.ANNOTATION_SERVED] == "true"


async def test_a_stored_plan_of_somebody_else_is_not_adopted(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    foreign = controller_revision(seen, theirs=True)
    foreign["metadata"] = {"name": CHILD, "namespace": namespace}
    client.foreign = foreign
    await apply(client, seen, controller_revision(seen))
    found = kube.have(CONTROLLER_REVISION, CHILD, namespace)

    assert not {"ownerReferences", "labels"} & set(found["metadata"])
    client.foreign = None
    second = await apply(client, seen, controller_revision(seen))
    assert second.verdict is not None
    assert second.verdict.reason is Reason.NAME_CONFLICT


@pytest.mark.parametrize("watched", [True, False])
async def test_a_field_of_the_creation_that_is_not_sent_any_more_goes(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str, watched: bool
) -> None:
    await apply(client, seen, config_map(seen, data={"plan.json": "{}", "old": "x"}))
    stored = kube.have(CONFIG_MAP, CHILD, namespace)

    outcome = await apply(client, shown(seen, stored) if watched else seen, config_map(seen))

    assert (outcome.retry, outcome.verdict) == (None, None)
    found = kube.have(CONFIG_MAP, CHILD, namespace)
    assert found["data"] == {"plan.json": "{}"}
    (entry,) = found["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == (names.FIELD_MANAGER, "Apply")
    assert [ref.resource_version for ref in outcome.applied] == [
        found["metadata"]["resourceVersion"]
    ]


async def test_a_child_that_changed_since_it_was_seen_is_looked_at_again(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    await apply(client, seen, config_map(seen))
    stale = kube.have(CONFIG_MAP, CHILD, namespace)
    kube.patch(CONFIG_MAP, CHILD, namespace, {"data": {"plan.json": "newer"}})

    outcome = await apply(client, shown(seen, stale), config_map(seen, data={"plan.json": "old"}))

    assert outcome.retry is not None
    assert outcome.retry.reason == "Conflict"
    assert kube.have(CONFIG_MAP, CHILD, namespace)["data"] == {"plan.json": "newer"}


async def test_a_late_write_from_an_older_look_changes_nothing_and_is_tried_again(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    """Its fields are claimed already, so that the apply alone carries what it was decided on."""
    await apply(client, seen, config_map(seen))
    await apply(client, seen, config_map(seen, data={"plan.json": "{1}"}))
    old_look = kube.have(CONFIG_MAP, CHILD, namespace)
    assert child(old_look, CONFIG_MAP).created_entry is None
    await apply(client, shown(seen, old_look), config_map(seen, data={"plan.json": "{2}"}))

    late = config_map(seen, data={"plan.json": "{1}", "late": "yes"})
    outcome = await apply(client, shown(seen, old_look), late)

    assert outcome.applied == ()
    assert outcome.retry is not None
    assert outcome.retry.reason == "Conflict"
    assert kube.have(CONFIG_MAP, CHILD, namespace)["data"] == {"plan.json": "{2}"}

    fresh = kube.have(CONFIG_MAP, CHILD, namespace)
    again = await apply(client, shown(seen, fresh), late)
    assert (again.retry, [ref.name for ref in again.applied]) == (None, [CHILD])
    assert kube.have(CONFIG_MAP, CHILD, namespace)["data"] == late["data"]


async def test_a_late_write_does_not_bring_a_deleted_child_back(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    await apply(client, seen, config_map(seen))
    await apply(client, seen, config_map(seen, data={"plan.json": "{1}"}))
    old_look = kube.have(CONFIG_MAP, CHILD, namespace)
    kube.delete(CONFIG_MAP, CHILD, namespace)

    outcome = await apply(client, shown(seen, old_look), config_map(seen, data={"late": "yes"}))

    assert outcome.applied == ()
    assert outcome.retry is not None
    assert kube.get(CONFIG_MAP, CHILD, namespace) is None


async def test_a_child_that_was_made_again_is_not_deleted_for_the_old_one(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    await apply(client, seen, config_map(seen))
    stale = kube.have(CONFIG_MAP, CHILD, namespace)
    kube.delete(CONFIG_MAP, CHILD, namespace)
    await apply(client, seen, config_map(seen))

    outcome = await apply(client, shown(seen, stale))

    assert outcome.pruned == ()
    assert outcome.retry is not None
    assert outcome.retry.reason == "Conflict"
    assert kube.get(CONFIG_MAP, CHILD, namespace) is not None


async def test_a_child_that_cannot_be_deleted_keeps_no_other(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    """The Service, which no role lets go, is not even tried."""
    one, other = config_map(seen), config_map(seen)
    other["metadata"] = {**other["metadata"], "name": f"{CHILD}-other"}
    port = {"name": "http", "port": 8000}
    service = {**config_map(seen), "kind": "Service", "spec": {"ports": [port]}}
    service.pop("data")
    await apply(client, seen, one, other, service)
    stale = [
        child(kube.have(CONFIG_MAP, n, namespace), CONFIG_MAP) for n in (CHILD, f"{CHILD}-other")
    ]
    kept = child(kube.have(SERVICE, CHILD, namespace), SERVICE)
    kube.patch(CONFIG_MAP, CHILD, namespace, {"data": {"plan.json": "newer"}})
    (key,) = seen.models

    outcome = await apply(client, replace(seen, children={key: (*stale, kept)}))

    assert [ref.name for ref in outcome.pruned] == [f"{CHILD}-other"]
    assert outcome.retry is not None
    assert outcome.retry.reason == "Conflict"
    assert kube.get(SERVICE, CHILD, namespace) is not None


async def test_a_child_that_the_api_refuses_is_told_and_what_follows_is_not_written(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    account = {
        **config_map(seen),
        "kind": "ServiceAccount",
        "metadata": {**config_map(seen)["metadata"], "labels": {"a": "not a label!"}},
    }
    account.pop("data")
    outcome = await apply(client, seen, config_map(seen), account)

    assert outcome.retry is None
    assert outcome.verdict is not None
    assert outcome.verdict.condition is ConditionType.PROGRESSING
    assert outcome.verdict.reason is Reason.APPLY_REFUSED
    assert "not a label!" in outcome.verdict.message
    assert kube.get(SERVICE_ACCOUNT, CHILD, namespace) is None
    assert kube.get(CONFIG_MAP, CHILD, namespace) is None


async def test_a_decision_that_leaves_things_untouched_writes_and_deletes_nothing(
    client: Interrupted, kube: Admin, seen: Snapshot, namespace: str
) -> None:
    await apply(client, seen, config_map(seen))
    stored = kube.have(CONFIG_MAP, CHILD, namespace)
    (key,) = seen.models
    outcome = await execute(
        client,
        shown(seen, stored),
        decision((revision(), 1), key=key, untouched=True),
        (),
        counted=lambda _kind, _result: None,
    )

    assert outcome == Outcome()
    assert kube.get(CONFIG_MAP, CHILD, namespace) is not None
