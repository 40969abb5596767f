"""The snapshot: fresh where an event touched it, shared where not, and without ghosts."""

from typing import Any

from tests.support.observed import ENVIRONMENT, KEY, NOW

from kindling_operator.kube.kinds import MODEL
from kindling_operator.model import names
from kindling_operator.model.names import SERVICE, Key
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.watched import (
    CHILDREN,
    CLAIMS,
    ENDPOINTS,
    MODELS,
    NODES,
    PODS,
    PRIORITIES,
    WATCHED,
    Entry,
    Watched,
)

SERVICES = next(watched for watched in CHILDREN if watched.kind == SERVICE)


class Indices:
    """kopf's indexes as handlers fill them: by uid, one entry each."""

    def __init__(self) -> None:
        self.by_id: dict[str, dict[str, list[Entry]]] = {watched.id: {} for watched in WATCHED}

    def put(
        self, watched: Watched, uid: str, name: str, namespace: str = "ml", **body: Any
    ) -> None:
        metadata = {"uid": uid, "name": name, "namespace": namespace, "resourceVersion": "1"}
        entry = watched.entry({**body, "metadata": {**metadata, **body.get("metadata", {})}})
        assert entry is not None
        self.by_id[watched.id][uid] = [entry]

    def drop(self, watched: Watched, uid: str) -> None:
        del self.by_id[watched.id][uid]


def attached() -> tuple[Cache, Indices]:
    cache, indices = Cache(ENVIRONMENT), Indices()
    cache.attach(indices.by_id)
    return cache, indices


def labelled(model: str = "flint") -> dict[str, Any]:
    return {"labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_MODEL: model}}


def slice_of_flint() -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Service", "name": "flint", "controller": True}
    labels = {**labelled()["labels"], names.LABEL_SERVICE_NAME: "flint"}
    return {"labels": labels, "ownerReferences": [owner]}


def test_nothing_is_synced_before_the_first_event() -> None:
    cache, _ = attached()
    assert not cache.snapshot(now=NOW).synced

    cache.touch(NODES)

    assert cache.snapshot(now=NOW).synced


def test_objects_appear_where_decisions_look_for_them() -> None:
    cache, indices = attached()
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}})
    indices.put(SERVICES, "2", "flint", metadata=labelled())
    indices.put(PODS, "3", "flint-x", metadata=labelled())
    indices.put(NODES, "4", "one", namespace="")
    indices.put(CLAIMS, "5", "weights")
    indices.put(PRIORITIES, "6", "high", namespace="", value=1000)
    indices.put(
        ENDPOINTS,
        "7",
        "flint-slice",
        metadata=slice_of_flint(),
        endpoints=[{"targetRef": {"kind": "Pod", "name": "flint-x"}}],
    )
    found = cache.snapshot(now=NOW)

    assert list(found.models) == [KEY]
    assert [child.ref.name for child in found.children[KEY]] == ["flint"]
    assert [pod.name for pod in found.pods_of(KEY)] == ["flint-x"]
    assert [node.name for node in found.nodes] == ["one"]
    assert found.claim("ml", "weights") is not None
    assert found.priorities == {"high": 1000}
    assert found.endpoints == {KEY: ("flint-x",)}
    assert found.now == NOW


def test_a_snapshot_stays_as_it_was_when_the_indexes_move_on() -> None:
    cache, indices = attached()
    indices.put(NODES, "1", "one")
    before = cache.snapshot(now=NOW)
    indices.put(NODES, "2", "two")
    assert cache.snapshot(now=NOW).nodes is before.nodes, "nothing was touched"

    cache.touch(NODES)
    after = cache.snapshot(now=NOW)

    assert [node.name for node in before.nodes] == ["one"]
    assert [node.name for node in after.nodes] == ["one", "two"]
    assert after.models is before.models, "what no event touched is shared"


def test_endpoints_of_several_slices_are_one_set() -> None:
    cache, indices = attached()
    for uid, pod in (("1", "b"), ("2", "a"), ("3", "b")):
        endpoints = [{"targetRef": {"kind": "Pod", "name": pod}}]
        indices.put(ENDPOINTS, uid, f"slice-{uid}", metadata=slice_of_flint(), endpoints=endpoints)

    assert cache.snapshot(now=NOW).endpoints == {KEY: ("a", "b")}


def test_an_object_that_is_known_to_be_gone_is_not_seen_any_more() -> None:
    cache, indices = attached()
    indices.put(SERVICES, "ghost", "flint", metadata=labelled())
    assert cache.snapshot(now=NOW).children[KEY]

    cache.forget(["ghost"])

    assert cache.snapshot(now=NOW).children == {}
    assert list(cache.entries(SERVICES)) == []


def test_the_world_changes_with_what_concerns_all_models_and_with_nothing_else() -> None:
    cache, indices = attached()
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}})
    indices.put(NODES, "2", "one", status={"allocatable": {"cpu": "1"}})
    before = cache.world()

    indices.put(NODES, "2", "one", status={"allocatable": {"cpu": "1"}, "images": ["new"]})
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}}, status={"replicas": 1})
    indices.put(CLAIMS, "3", "weights")
    for watched in (NODES, MODELS, CLAIMS):
        cache.touch(watched)
    assert cache.world() == before

    indices.put(NODES, "2", "one", status={"allocatable": {"cpu": "2"}})
    cache.touch(NODES)
    assert cache.world() != before


def test_a_pod_that_takes_gpus_changes_the_world() -> None:
    cache, indices = attached()
    before = cache.world()
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    indices.put(PODS, "1", "foreign", "other", spec={"containers": [container]})
    cache.touch(PODS)

    assert cache.world() != before


def test_models_are_found_by_namespace() -> None:
    cache, indices = attached()
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}})
    indices.put(MODELS, "2", "flint", "dev", spec={"model": {"name": "flint"}})

    assert cache.model_keys_of("dev") == (Key("dev", "flint"),)
    assert set(cache.model_keys()) == {KEY, Key("dev", "flint")}
    assert MODEL.kind == "InferenceModel"
