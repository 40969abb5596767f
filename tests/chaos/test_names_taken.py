"""Names that are taken: refused and named, never hijacked, never half-created."""

from typing import Any, Final

import pytest
from tests.chaos.stories import NAME, SECONDS, URI, apply, made, ready
from tests.support import kubelet
from tests.support.kube import COMMON_KINDS, MODEL, Kube, Object, conditions
from tests.support.manifests import tiny
from tests.support.operator_process import OperatorProcess
from tests.support.waiting import until

from kindling_operator.model import names
from kindling_operator.model.names import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    FIELD_MANAGER,
    NETWORK_POLICY,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
    revision_object_name,
)
from kindling_operator.model.parse import ParsedModel, parse
from kindling_operator.plan.revision import wanted_hash

pytestmark = pytest.mark.cluster

FOREIGN_POD: Final[Object] = {
    "metadata": {"labels": {"app": "foreign"}},
    "spec": {"containers": [{"name": "main", "image": "foreign"}]},
}
BODIES: Final[dict[Kind, Object]] = {
    SERVICE_ACCOUNT: {},
    CONTROLLER_REVISION: {"revision": 1, "data": {"foreign": True}},
    CONFIG_MAP: {"data": {"foreign": "true"}},
    NETWORK_POLICY: {"spec": {"podSelector": {"matchLabels": {"app": "foreign"}}}},
    SERVICE: {"spec": {"selector": {"app": "foreign"}, "ports": [{"port": 80}]}},
    DEPLOYMENT: {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "foreign"}},
            "template": FOREIGN_POD,
        }
    },
}
OUR_LABELS: Final = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_MODEL: NAME}
OTHERS_MODEL: Final = {
    "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
    "kind": names.KIND,
    "name": NAME,
    "uid": "8e7c1d9e-8b5f-4b0e-9a53-2f6f4c1f7a11",
    "controller": True,
}
"""A kind of the Gateway API Inference Extension that is called as ours is."""


def foreign(kind: Kind, name: str, namespace: str, **metadata: Any) -> Object:
    """An object of somebody else."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        **BODIES[kind],
    }


def wanted_name(kind: Kind, namespace: str) -> str:
    """The name that the model will want for its child of this kind."""
    model = parse(tiny(NAME, namespace, uri=URI))
    assert isinstance(model, ParsedModel)
    if kind in {SERVICE_ACCOUNT, NETWORK_POLICY, SERVICE}:
        return NAME
    return revision_object_name(NAME, wanted_hash(model))


@pytest.mark.parametrize(
    "theirs",
    [{}, {"labels": OUR_LABELS}, {"labels": OUR_LABELS, "ownerReferences": [OTHERS_MODEL]}],
    ids=["unlabelled", "with our labels", "of another group's InferenceModel"],
)
@pytest.mark.parametrize("kind", COMMON_KINDS, ids=lambda kind: str(kind.kind))
def test_a_taken_name_is_refused_and_progress_follows_when_it_is_free(
    operator: OperatorProcess,
    kube: Kube,
    namespace: str,
    kind: Kind,
    theirs: dict[str, Any],
) -> None:
    name = wanted_name(kind, namespace)
    kube.apply(foreign(kind, name, namespace, **theirs))

    apply(kube, namespace)
    found = kube.wait_condition(
        NAME, namespace, type="Accepted", status="False", reason="NameConflict", seconds=SECONDS
    )

    assert conditions(found)["Accepted"].message == (
        f"{kind.kind} {namespace}/{name} exists and does not belong to this InferenceModel: delete"
        " it or give the InferenceModel another name."
    )
    assert conditions(found)["Ready"].reason == "NameConflict"
    assert "endpoint" not in found["status"]
    others = [child for child in kube.children(NAME, namespace) if child != f"{kind.kind} {name}"]
    assert others == [], "nothing half-created stays"
    _assert_untouched(kube.have(kind, name, namespace), theirs)

    kube.delete(kind, name, namespace)
    made(kube, namespace)
    kube.have(kind, name, namespace)
    kube.wait_condition(NAME, namespace, type="Accepted", seconds=SECONDS)


def _assert_untouched(found: Object, theirs: dict[str, Any]) -> None:
    metadata = found["metadata"]
    assert metadata.get("labels") == theirs.get("labels")
    assert metadata.get("ownerReferences") == theirs.get("ownerReferences")
    assert FIELD_MANAGER not in {entry["manager"] for entry in metadata["managedFields"]}


def test_objects_of_others_that_carry_our_labels_are_never_pruned(
    operator: OperatorProcess, kube: Kube, namespace: str
) -> None:
    ready(kube, namespace)
    owner = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "name": "default",
        "uid": kube.have(SERVICE_ACCOUNT, "default", namespace)["metadata"]["uid"],
        "controller": True,
    }
    ownerless = foreign(CONFIG_MAP, "ownerless", namespace, labels=OUR_LABELS)
    owned = foreign(CONFIG_MAP, "owned", namespace, labels=OUR_LABELS, ownerReferences=[owner])
    kube.apply(ownerless, owned)

    with kubelet.playing(kube, namespace):
        old = kube.have(MODEL, NAME, namespace)["status"]["plan"]["revision"]
        kube.patch(MODEL, NAME, namespace, {"spec": {"serving": {"contextLength": 1024}}})
        until(
            f"the old revision {old} to be pruned",
            lambda: kube.get(CONFIG_MAP, old, namespace) is None,
            seconds=SECONDS,
            show=lambda: kube.told(NAME, namespace),
        )

    assert kube.get(CONFIG_MAP, "ownerless", namespace) is not None
    assert kube.get(CONFIG_MAP, "owned", namespace) is not None


def test_a_model_that_is_made_again_at_once_takes_over_without_a_conflict(
    operator: OperatorProcess, kube: Kube, namespace: str
) -> None:
    """The garbage collector still removes the children of the first when the second arrives."""
    apply(kube, namespace)
    made(kube, namespace)
    first = kube.have(MODEL, NAME, namespace)["metadata"]["uid"]

    kube.delete(MODEL, NAME, namespace)
    apply(kube, namespace)

    def whole() -> bool:
        model = kube.have(MODEL, NAME, namespace)
        service = kube.get(SERVICE, NAME, namespace)
        owners = (service or {"metadata": {}})["metadata"].get("ownerReferences", [{}])
        return bool(owners[0].get("uid") == model["metadata"]["uid"] != first)

    until("the second's Service", whole, seconds=SECONDS, every=0.1)
    reasons = [event["note"] for event in kube.events(namespace, NAME)]
    assert not any("NameConflict" in reason for reason in reasons), reasons
