"""Whether an observed object already is what we would apply. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kindling_operator.model.names import ANNOTATION_APPLIED
from kindling_operator.model.objects import ChildView

DIGEST_DIGITS: Final = 16

_ABSENT: Final = object()
_ZERO: Final[tuple[object, ...]] = (None, False, 0, "", {}, [], ())
"""Values that the API server drops from an object when a field is declared `omitempty`."""

_ATOMIC: Final = frozenset({"selector", "matchLabels", "nodeSelector"})
"""Maps that server-side apply replaces whole (x-kubernetes-map-type: atomic): one key more selects
other pods or nodes, so these must be equal."""


def stamped(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with a digest of itself as annotation.

    A field that we stop sending leaves no trace in a comparison of fields; the digest changes.
    """
    canonical = msgspec.json.encode(manifest, order="sorted")
    digest = hashlib.sha256(canonical).hexdigest()[:DIGEST_DIGITS]
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_APPLIED: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def needs_apply(desired: Mapping[str, Any], observed: ChildView | None) -> bool:
    """Whether applying `desired`, as `stamped` returns it, would change something."""
    return observed is None or not contains(observed.manifest, desired)


def contains(observed: object, desired: object) -> bool:
    """Whether everything in `desired` stands in `observed`; what others added does not matter,
    but in a selector."""
    if isinstance(desired, Mapping):
        if not isinstance(observed, Mapping):
            return not desired and observed in (None, _ABSENT)
        return all(_field(key, observed.get(key, _ABSENT), value) for key, value in desired.items())
    if isinstance(desired, (list, tuple)):
        return isinstance(observed, (list, tuple)) and _list_contains(observed, desired)
    return bool(observed == desired) and isinstance(observed, bool) == isinstance(desired, bool)


def _field(key: str, observed: object, desired: object) -> bool:
    if observed is _ABSENT:
        return any(desired is zero or desired == zero for zero in _ZERO)
    if key in _ATOMIC and isinstance(observed, Mapping):
        return observed == desired
    return contains(observed, desired)


def _list_contains(observed: Sequence[Any], desired: Sequence[Any]) -> bool:
    if _named(desired):
        # A map in list's clothes, such as containers: others may add items, and order is theirs.
        by_name = {item["name"]: item for item in observed if _has_name(item)}
        return all(
            item["name"] in by_name and contains(by_name[item["name"]], item) for item in desired
        )
    return len(observed) == len(desired) and all(map(contains, observed, desired))


def _named(items: Sequence[Any]) -> bool:
    return bool(items) and all(map(_has_name, items))


def _has_name(item: object) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("name"), str)
