"""A cluster as if a file had been applied: what keeps its age, what is the youngest."""

from datetime import timedelta

from tests.support.observed import KEY, NOW, model, snapshot

from kindling_operator.cli_cluster import NEEDED, STANDING, with_models
from kindling_operator.model.names import CHILD_KINDS, Key
from kindling_operator.model.parse import ParsedModel
from kindling_operator.observe.watched import CHILDREN
from kindling_operator.plan.placement import models_in_order


def parsed(key: Key, **more: object) -> ParsedModel:
    found = model(key, **more)  # type: ignore[arg-type]
    assert isinstance(found, ParsedModel)
    return found


def test_a_new_model_is_the_youngest() -> None:
    fresh = parsed(Key("ml", "a"), creationTimestamp=None, uid="")

    found = with_models(snapshot(), [fresh])

    assert [each.key.name for each in models_in_order(found)] == ["flint", "a"]
    assert found.models[fresh.key].metadata.created == NOW


def test_a_model_that_is_there_keeps_its_identity_and_gets_the_new_spec() -> None:
    there = parsed(KEY, status={"endpoint": "http://x"})
    applied = parsed(
        KEY,
        uid="",
        creationTimestamp=None,
        spec={"model": {"name": "flint"}, "replicas": 3},
        annotations={"kindling.dev/replan": "now"},
    )

    found = with_models(snapshot(there), [applied]).models[KEY]

    assert isinstance(found, ParsedModel)
    assert (found.spec.replicas, found.metadata.uid) == (3, there.metadata.uid)
    assert found.metadata.created == there.metadata.created
    assert found.metadata.created is not None
    assert found.metadata.created < NOW - timedelta(minutes=1)
    assert (found.metadata.replan, found.status) == ("now", there.status)


def test_a_plan_reads_no_child_that_no_decision_reads() -> None:
    read = {kind.kind for kind in NEEDED}

    assert {"Node", "Pod", "PriorityClass", "ControllerRevision", "Deployment"} <= read
    assert {"LeaderWorkerSet", "ResourceSlice", "ResourceClaim", "DeviceClass"} <= read
    assert not read & {"ConfigMap", "ServiceAccount", "Service", "NetworkPolicy"}
    assert set(STANDING) < set(CHILDREN)
    assert len(CHILDREN) == len(CHILD_KINDS)
