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

_KEYS: Final = ("mountPath", "name")
"""What server-side apply tells items of a list apart by, as far as what we render has them."""

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
    key = _key(desired)
    if key is None:
        return len(observed) == len(desired) and all(map(contains, observed, desired))
    # A map in list's clothes, such as containers: others may add items, and order is theirs.
    there = {item[key]: item for item in observed if isinstance(item, Mapping) and key in item}
    return all(item[key] in there and contains(there[item[key]], item) for item in desired)


def _key(items: Sequence[Any]) -> str | None:
    """What tells the items of a list apart, None where nothing does. A volume may be mounted twice,
    so that the name of a mount is none."""
    for key in _KEYS:
        texts = [item.get(key) for item in items if isinstance(item, Mapping)]
        told = {text for text in texts if isinstance(text, str)}
        if items and len(told) == len(items):
            return key
    return None
