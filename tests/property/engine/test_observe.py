"""Bodies of any shape: nothing raises, and what is kept is what was there."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kindling_operator.apply.needs import contains, needs_apply, stamped
from kindling_operator.observe.audit import Seen, judge
from kindling_operator.observe.watched import WATCHED

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)
FIELDS = (
    "name", "namespace", "labels", "annotations", "ownerReferences", "uid", "conditions",
    "containerStatuses", "containers", "resources", "limits", "nvidia.com/gpu", "endpoints",
    "targetRef", "type", "status", "state", "terminated", "creationTimestamp", "allocatable",
    "kindling.dev/model", "app.kubernetes.io/managed-by", "controller", "kind", "taints", "value",
    "deletionTimestamp", "phase", "nodeInfo", "initContainers", "restartPolicy", "generation",
)  # fmt: skip
SHAPED = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    ),
    max_leaves=20,
)
BODIES = st.dictionaries(st.sampled_from(("metadata", "spec", "status", "value")), SHAPED)
OBJECTS = st.dictionaries(st.text(max_size=6), JSON, max_size=4)


@given(st.one_of(BODIES, OBJECTS))
def test_no_body_makes_any_view_raise(body: dict[str, Any]) -> None:
    for watched in WATCHED:
        entry = watched.entry(body)
        assert entry is None or isinstance(entry.uid, str)
        assert all(isinstance(key.name, str) for key in watched.wakes(body))


@given(JSON)
def test_everything_contains_itself(value: Any) -> None:
    assert contains(value, value)


@given(OBJECTS, OBJECTS)
def test_what_others_add_does_not_matter(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert contains({**theirs, **ours}, ours)


@given(OBJECTS, st.text(min_size=7, max_size=9), st.integers(min_value=1))
def test_a_field_that_is_not_there_is_missed(ours: dict[str, Any], field: str, value: int) -> None:
    assert not contains(ours, {**ours, field: value})


@given(OBJECTS)
def test_a_stamp_never_changes_what_it_stamps(spec: dict[str, Any]) -> None:
    manifest = {"kind": "Service", "metadata": {"name": "x"}, "spec": spec}
    result = stamped(manifest)

    assert result["spec"] == spec
    assert stamped(manifest) == result
    assert needs_apply(result, None)


SIDES = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from("123").map(lambda v: Seen(v, None))
)


@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=6), st.booleans())
def test_the_audit_accuses_only_what_stood_still_over_the_grace(
    looks: list[tuple[dict[str, Seen], dict[str, Seen]]], complete: bool
) -> None:
    suspects: Any = {}
    for step, (indexed, listed) in enumerate(looks):
        found = judge(indexed, listed, suspects, complete=complete, now=step, grace=2)
        suspects = found.suspects
        accused = {*found.gone, *found.missed, *found.outdated}
        if step < 2:
            assert accused == set()
        for uid in accused:
            recent = looks[step - 2 : step + 1]
            versions = {past.get(uid) for past, _ in recent}
            assert len(versions) == 1, "the index moved"
            assert all(past.get(uid) != there.get(uid) for past, there in recent)
