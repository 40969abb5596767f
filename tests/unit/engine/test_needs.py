"""When an observed object already is what we would apply."""

from typing import Any

import pytest
from tests.support.observed import child

from kindling_operator.apply.needs import contains, needs_apply, stamped
from kindling_operator.model.names import ANNOTATION_APPLIED, SERVICE

CASES: dict[str, tuple[Any, Any, bool]] = {
    "equal scalars": ("a", "a", True),
    "other scalar": ("a", "b", False),
    "a number is not a truth value": (1, True, False),
    "a truth value is not a number": (False, 0, False),
    "fields that others added": ({"a": 1, "b": 2}, {"a": 1}, True),
    "a field of ours is missing": ({"b": 2}, {"a": 1}, False),
    "a field of ours was changed": ({"a": 2}, {"a": 1}, False),
    "a field of ours was changed inside": ({"a": {"b": 2}}, {"a": {"b": 1}}, False),
    "an empty map that the server dropped": ({}, {"a": {}}, True),
    "false that the server dropped": ({}, {"a": False}, True),
    "an empty list that the server dropped": ({}, {"a": []}, True),
    "a map where a scalar stands": ({"a": "x"}, {"a": {"b": 1}}, False),
    "a scalar where a map stands": ({"a": {"b": 1}}, {"a": "x"}, False),
    "a list in the same order": ([1, 2], [1, 2], True),
    "a list in another order": ([2, 1], [1, 2], False),
    "a list with one more": ([1, 2, 3], [1, 2], False),
    "a string is no list": ("ab", ["a", "b"], False),
    "items by name, in another order": (
        [{"name": "b", "x": 1}, {"name": "a", "x": 2}],
        [{"name": "a", "x": 2}, {"name": "b"}],
        True,
    ),
    "items by name that others added": (
        [{"name": "sidecar"}, {"name": "engine", "image": "i"}],
        [{"name": "engine", "image": "i"}],
        True,
    ),
    "an item by name that is missing": ([{"name": "b"}], [{"name": "a"}], False),
    "an item by name that was changed": (
        [{"name": "engine", "image": "other"}],
        [{"name": "engine", "image": "i"}],
        False,
    ),
    "one volume that is mounted twice": (
        [{"name": "cache", "mountPath": "/a"}, {"name": "cache", "mountPath": "/b"}],
        [{"name": "cache", "mountPath": "/a"}, {"name": "cache", "mountPath": "/b"}],
        True,
    ),
    "one volume that is mounted twice, once elsewhere": (
        [{"name": "cache", "mountPath": "/a"}, {"name": "cache", "mountPath": "/c"}],
        [{"name": "cache", "mountPath": "/a"}, {"name": "cache", "mountPath": "/b"}],
        False,
    ),
    "one volume that is mounted twice, and once more by others": (
        [{"name": "cache", "mountPath": at} for at in ("/c", "/b", "/a")],
        [{"name": "cache", "mountPath": at} for at in ("/a", "/b")],
        True,
    ),
    "items that no key tells apart": (
        [{"name": "a", "x": 1}, {"name": "a", "x": 2}],
        [{"name": "a", "x": 1}, {"name": "a", "x": 2}],
        True,
    ),
    "a key that others added to a selector": (
        {"selector": {"a": "1", "b": "2"}},
        {"selector": {"a": "1"}},
        False,
    ),
    "a key that others added to the labels that are matched": (
        {"selector": {"matchLabels": {"a": "1", "b": "2"}}},
        {"selector": {"matchLabels": {"a": "1"}}},
        False,
    ),
    "a key that others added to a node selector": (
        {"nodeSelector": {"a": "1", "b": "2"}},
        {"nodeSelector": {"a": "1"}},
        False,
    ),
    "an equal selector": ({"selector": {"a": "1"}}, {"selector": {"a": "1"}}, True),
    "an empty selector that the server dropped": ({}, {"nodeSelector": {}}, True),
    "items without names, with defaults added": (
        [{"port": 80, "protocol": "TCP"}],
        [{"port": 80}],
        True,
    ),
}


@pytest.mark.parametrize(("observed", "desired", "expected"), CASES.values(), ids=CASES)
def test_contains(observed: Any, desired: Any, expected: bool) -> None:
    assert contains(observed, desired) is expected


def service(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "flint", "labels": {"a": "b"}},
        "spec": spec,
    }


def test_what_was_applied_need_not_be_applied_again() -> None:
    desired = stamped(service(ports=[{"name": "http", "port": 8000}]))
    observed = stamped(service(ports=[{"name": "http", "port": 8000, "protocol": "TCP"}]))
    observed["metadata"]["annotations"] = desired["metadata"]["annotations"]

    assert not needs_apply(desired, child(SERVICE, "flint", manifest=observed))


def test_a_field_that_we_stop_sending_makes_an_apply_necessary() -> None:
    before = stamped(service(ports=[{"name": "http", "port": 8000}], clusterIP="None"))
    after = stamped(service(ports=[{"name": "http", "port": 8000}]))

    assert contains(before["spec"], after["spec"])
    assert needs_apply(after, child(SERVICE, "flint", manifest=before))


def test_what_is_not_there_must_be_applied() -> None:
    assert needs_apply(stamped(service()), None)


def test_the_stamp_keeps_annotations_and_leaves_the_manifest_alone() -> None:
    manifest = service()
    manifest["metadata"]["annotations"] = {"kindling.dev/served": "true"}

    result = stamped(manifest)

    assert result["metadata"]["annotations"]["kindling.dev/served"] == "true"
    assert len(result["metadata"]["annotations"][ANNOTATION_APPLIED]) == 16
    assert ANNOTATION_APPLIED not in manifest["metadata"]["annotations"]


def test_the_order_of_keys_does_not_change_the_stamp() -> None:
    one = {"kind": "A", "metadata": {"name": "n"}, "spec": {"a": 1, "b": 2}}
    other = {"spec": {"b": 2, "a": 1}, "metadata": {"name": "n"}, "kind": "A"}

    assert stamped(one)["metadata"] == stamped(other)["metadata"]
