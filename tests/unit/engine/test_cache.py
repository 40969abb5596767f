"""The snapshot: fresh where an event touched it, shared where not, and without ghosts."""

from typing import Any

from tests.support.beside import Sources
from tests.support.observed import ENVIRONMENT, KEY, NOW

from kindling_operator.kube.kinds import MODEL
from kindling_operator.model import names
from kindling_operator.model.names import SERVICE, Key
from kindling_operator.model.objects import NodeUse
from kindling_operator.observe.cache import USED_SECONDS, Cache
from kindling_operator.observe.watched import (
    CHILDREN,
    CLAIMS,
    ENDPOINTS,
    MODELS,
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


def followed() -> tuple[Cache, Sources]:
    """With nodes and pods of others."""
    cache, sources = Cache(ENVIRONMENT, clock=lambda: sources.seconds), Sources()
    cache.attach(Indices().by_id)
    cache.follow(sources.beside)
    cache.touch(MODELS)
    return cache, sources


def labelled(model: str = "flint") -> dict[str, Any]:
    return {"labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_MODEL: model}}


def slice_of_flint() -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Service", "name": "flint", "controller": True}
    labels = {**labelled()["labels"], names.LABEL_SERVICE_NAME: "flint"}
    return {"labels": labels, "ownerReferences": [owner]}


def test_nothing_is_synced_before_the_first_event() -> None:
    cache, _ = attached()
    assert not cache.snapshot(now=NOW).synced

    cache.touch(MODELS)

    assert cache.snapshot(now=NOW).synced


def test_nothing_is_synced_before_nodes_and_pods_of_others_are_listed() -> None:
    cache, sources = followed()
    sources.pods.lists = 0
    assert not cache.snapshot(now=NOW).synced

    sources.pods.lists = 1

    assert cache.snapshot(now=NOW).synced


def test_objects_appear_where_decisions_look_for_them() -> None:
    cache, indices = attached()
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}})
    indices.put(SERVICES, "2", "flint", metadata=labelled())
    indices.put(PODS, "3", "flint-x", metadata=labelled())
    sources = Sources()
    sources.nodes.put("4", "one")
    cache.follow(sources.beside)
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


def test_a_snapshot_stays_as_it_was_when_the_world_moves_on() -> None:
    cache, sources = followed()
    sources.nodes.put("1", "one")
    before = cache.snapshot(now=NOW)
    sources.nodes.put("2", "two")
    assert cache.snapshot(now=NOW).nodes is before.nodes, "nothing was touched"

    cache.touch_nodes()
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
    sources = Sources()
    cache.follow(sources.beside)
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}})
    assert sources.nodes.put("2", "one", status={"allocatable": {"cpu": "1"}})
    before = cache.world()

    heartbeat = {"allocatable": {"cpu": "1"}, "images": [{"names": ["new"]}]}
    assert not sources.nodes.put("2", "one", status=heartbeat)
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}}, status={"replicas": 1})
    indices.put(CLAIMS, "3", "weights")
    for watched in (MODELS, CLAIMS):
        cache.touch(watched)
    cache.touch_nodes()
    assert cache.world() == before

    assert sources.nodes.put("2", "one", status={"allocatable": {"cpu": "2"}})
    cache.touch_nodes()
    assert cache.world() != before


def container(**limits: str) -> dict[str, Any]:
    return {"containers": [{"resources": {"limits": limits, "requests": limits}}]}


def test_a_pod_that_takes_gpus_changes_the_world_at_once() -> None:
    cache, sources = followed()
    before = cache.world()
    sources.pods.put("1", "job", "other", spec=container(**{"nvidia.com/gpu": "1"}))

    after = cache.world()

    assert after != before
    assert [pod.name for pod in cache.snapshot(now=NOW).pods] == ["job"]


def test_what_other_pods_take_is_seen_within_seconds() -> None:
    cache, sources = followed()
    sources.pods.put("1", "web", "other", spec={"nodeName": "one", **container(cpu="1")})
    assert cache.snapshot(now=NOW).used == {"one": NodeUse(cpu_millis=1000, pods=1)}

    sources.pods.put("2", "db", "other", spec={"nodeName": "one", **container(cpu="2")})
    assert cache.snapshot(now=NOW).used["one"].pods == 1

    sources.seconds += USED_SECONDS
    assert cache.snapshot(now=NOW).used == {"one": NodeUse(cpu_millis=3000, pods=2)}


def test_models_are_found_by_namespace() -> None:
    cache, indices = attached()
    indices.put(MODELS, "1", "flint", spec={"model": {"name": "flint"}})
    indices.put(MODELS, "2", "flint", "dev", spec={"model": {"name": "flint"}})

    assert cache.model_keys_of("dev") == (Key("dev", "flint"),)
    assert set(cache.model_keys()) == {KEY, Key("dev", "flint")}
    assert MODEL.kind == "InferenceModel"
