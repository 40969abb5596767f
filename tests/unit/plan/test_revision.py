"""What a plan belongs to, and what is read back of it."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.builders import KEY, Cluster, parsed, tiny_architecture, tiny_spec
from tests.support.manifests import merged

from kindling_operator.model.names import ANNOTATION_REPLAN, CONTROLLER_REVISION
from kindling_operator.model.parse import ParsedModel
from kindling_operator.plan.revision import inputs_digest, stored_revisions, wanted_hash


def model(patch: Any = None, **metadata: Any) -> ParsedModel:
    found = parsed(merged(tiny_spec(), patch or {}), **metadata)
    assert isinstance(found, ParsedModel), found
    return found


OUTSIDE = {
    "replicas": {"replicas": 3},
    "scaling": {"scaling": {"maxReplicas": 3}},
    "the rollout": {"rollout": {"progressDeadline": "1m", "drainDeadline": "1m"}},
    "what a failure does": {"rollout": {"onFailure": "Hold"}},
    "the endpoint's port": {"endpoint": {"port": 9000}},
    "the limit of the cache": {"model": {"weights": {"cacheMaxBytes": "2Ti"}}},
    "opened but empty objects": {
        "serving": {},
        "placement": {"gpu": {}, "parallelism": {}},
        "runtime": {"resources": {}},
        "cache": {},
    },
    "defaults that are written out": {
        "model": {"checkpoint": "Auto", "custom": {"modalities": ["Text"]}},
        "serving": {
            "concurrency": 1,
            "frontend": "Python",
            "speculation": {"mode": "Auto"},
            "extraArgs": [],
        },
        "placement": {"nodeSelector": {}, "tolerations": []},
    },
}
GROUPS = [
    {"name": "full", "kind": "Full", "layers": 2, "kvHeads": 2, "headSize": 64},
    {"name": "sliding", "kind": "Sliding", "layers": 2, "kvHeads": 2, "headSize": 64, "window": 64},
]
ALIKE = {
    "the order of a set": (
        {"placement": {"gpu": {"products": ["NVIDIA-H200", "NVIDIA-B200"]}}},
        {"placement": {"gpu": {"products": ["NVIDIA-B200", "NVIDIA-H200"]}}},
    ),
    "the order of modalities": (
        {"model": {"custom": {"modalities": ["Text", "Image"]}}},
        {"model": {"custom": {"modalities": ["Image", "Text"]}}},
    ),
    "the order of a list by name": (
        {"runtime": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}},
        {"runtime": {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]}},
    ),
    "the order of labels": (
        {"placement": {"nodeSelector": {"a": "1", "b": "2"}}},
        {"placement": {"nodeSelector": {"b": "2", "a": "1"}}},
    ),
    "the unit of memory": (
        {"runtime": {"resources": {"memory": "1Gi"}}},
        {"runtime": {"resources": {"memory": "1024Mi"}}},
    ),
    "memory as a number": (
        {"placement": {"gpu": {"minMemory": "80Gi"}}},
        {"placement": {"gpu": {"minMemory": 80 * 2**30}}},
    ),
    "the unit of CPU": (
        {"runtime": {"resources": {"cpu": "1500m"}}},
        {"runtime": {"resources": {"cpu": "1.5"}}},
    ),
    "the unit of a tier": ({"cache": {"hostMemory": "1Gi"}}, {"cache": {"hostMemory": "1024Mi"}}),
}
INSIDE = {
    "a little more memory": {"runtime": {"resources": {"memory": "1025Mi"}}},
    "the weights": {"model": {"weights": {"revision": "3f0c"}}},
    "the architecture": {"model": {"custom": {"contextLength": 2048}}},
    "the context": {"serving": {"contextLength": 2048}},
    "an extra argument": {"serving": {"extraArgs": ["--seed=1"]}},
    "the placement": {"placement": {"nodeSelector": {"a": "b"}}},
    "the image": {"runtime": {"image": "registry.test/own"}},
    "the host tier": {"cache": {"hostMemory": "1Gi"}},
    "the encoder tier": {"cache": {"encoderMemory": "1Gi"}},
}


@pytest.mark.parametrize("patch", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_a_plan_does_not_depend_on(patch: Any) -> None:
    assert inputs_digest(model(patch).spec) == inputs_digest(model().spec)


@pytest.mark.parametrize("patch", INSIDE.values(), ids=INSIDE.keys())
def test_a_plan_depends_on(patch: Any) -> None:
    assert inputs_digest(model(patch).spec) != inputs_digest(model().spec)


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE.keys())
def test_a_plan_does_not_depend_on_how_it_is_spelled(one: Any, other: Any) -> None:
    assert inputs_digest(model(one).spec) == inputs_digest(model(other).spec)
    assert inputs_digest(model(one).spec) != inputs_digest(model().spec)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(ALIKE[name] for name in ("the order of a list by name", "the unit of memory")),
        (
            {"serving": {"modalities": ["Text", "Image"]}},
            {"serving": {"modalities": ["Image", "Text"]}},
        ),
        (
            {"model": {"custom": {"attention": GROUPS}}},
            {"model": {"custom": {"attention": GROUPS[::-1]}}},
        ),
    ],
)
def test_what_is_spelled_otherwise_is_planned_alike(one: Any, other: Any) -> None:
    base = tiny_spec(tiny_architecture(modalities=["Text", "Image", "Audio"]))
    found = Cluster().apply(merged(base, one))
    made = found.step().current
    assert made is not None

    again = found.apply(merged(base, other)).step()

    assert again.current is not None
    assert again.current.hash == made.hash
    assert again.better is None


def test_arguments_keep_their_order() -> None:
    """vLLM takes the last of two that contradict each other."""
    one, other = (
        {"serving": {"extraArgs": [f"--{name}=1" for name in order]}} for order in ("ab", "ba")
    )
    assert inputs_digest(model(one).spec) != inputs_digest(model(other).spec)


def store(**fields: Any) -> dict[str, Any]:
    identity = {"aws": {"roleArn": "arn:aws:iam::123456789012:role/kv"}}
    return {"cache": {"objectStore": {"uri": "s3://kv/x", "identity": identity, **fields}}}


def test_a_plan_depends_on_which_store_there_is_but_not_on_its_limits() -> None:
    plain = inputs_digest(model(store()).spec)
    limited = store(admission="Always", maxBytes="1Ti", maxAge="1h")

    assert plain != inputs_digest(model().spec)
    assert plain != inputs_digest(model(store(uri="s3://kv/y")).spec)
    assert plain == inputs_digest(model(limited).spec)


def test_an_empty_identity_says_something() -> None:
    pod = store(identity={"aws": {"podIdentity": {}}})
    development = store(identity={"development": {}})

    digests = {inputs_digest(model(each).spec) for each in (store(), pod, development)}

    assert len(digests) == 3


def test_the_digest_of_today_is_the_digest_of_tomorrow() -> None:
    """A change of this value restarts every model of every user: it needs a very good reason."""
    assert inputs_digest(model().spec) == (
        "53175dd9c286af80c9c2e3ddf8c8cf581ccd1dbe2bdce3d2ea6e8bd52a282451"
    )
    assert wanted_hash(model()) == "78619c0d23"


def test_the_users_word_makes_another_revision_of_the_same_inputs() -> None:
    plain, told = model(), model(annotations={ANNOTATION_REPLAN: "2026-11-30T10:00:00Z"})

    assert inputs_digest(plain.spec) == inputs_digest(told.spec)
    assert wanted_hash(plain) != wanted_hash(told)


def test_what_is_stored_is_read_back() -> None:
    found = Cluster().apply(tiny_spec())
    made = found.step().current
    assert made is not None

    (stored,) = stored_revisions(found.snapshot(), found.models[KEY])

    assert (stored.hash, stored.inputs, stored.replan) == (made.hash, made.inputs, made.replan)
    assert stored.plan == made.plan
    assert stored.created == found.now
    assert not stored.served


def test_a_place_behind_the_service_is_remembered_for_good() -> None:
    found = Cluster().apply(tiny_spec())
    made = found.step().current
    assert made is not None
    found.serve(made.hash)
    assert stored_revisions(found.snapshot(), found.models[KEY])[0].served

    found.step()
    found.pods, found.endpoints = (), {}
    assert stored_revisions(found.snapshot(), found.models[KEY])[0].served


def test_foreign_and_unreadable_revisions_do_not_count() -> None:
    found = Cluster().apply(tiny_spec())
    found.step()
    place = next(p for p in found.children[KEY] if p[0] == CONTROLLER_REVISION.kind)
    ours = found.children[KEY][place]
    others = {
        "foreign": replace(ours, owner_uid="uid-of-another"),
        "empty": replace(ours, manifest={**ours.manifest, "data": {}}),
        "no object": replace(ours, manifest={**ours.manifest, "data": None}),
        "another name": replace(ours, ref=replace(ours.ref, name="other-1234567890")),
    }
    for other in others.values():
        found.children[KEY][place] = other
        assert stored_revisions(found.snapshot(), found.models[KEY]) == ()


def test_an_operator_of_another_version_may_have_stored_more_than_we_know() -> None:
    found = Cluster().apply(tiny_spec())
    made = found.step().current
    assert made is not None
    place = next(p for p in found.children[KEY] if p[0] == CONTROLLER_REVISION.kind)
    ours = found.children[KEY][place]
    data = {**ours.manifest["data"], "news": 1}
    data["plan"] = {**data["plan"], "speculation": {"tokens": 4}}
    found.children[KEY][place] = replace(ours, manifest={**ours.manifest, "data": data})

    applied = {m["kind"]: m for m in found.manifests()}

    assert applied["ControllerRevision"]["data"] == data
    assert found.decide().current is not None


def test_a_name_is_no_secret_of_the_namespace() -> None:
    """Equal specs have equal hashes wherever they are: names carry the model's own name anyway."""
    assert wanted_hash(model()) == wanted_hash(model(uid="another"))
    assert tiny_architecture()["layers"] == 4
