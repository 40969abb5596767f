"""What a part of the spec says, however it is spelled: for digests.

Neither the order of a set, nor the unit of a quantity, nor a default that is written out makes a
difference to a plan.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect as mi

from kindling_operator.model.fields import CANONICAL
from kindling_operator.model.rules import is_of, type_info

_UNORDERED = ("set", "map")


def said(value: msgspec.Struct | None) -> Any:
    """The value as plain data, without the fields that have their default or then are empty.

    msgspec's own `omit_defaults` knows simple defaults only.
    """
    return None if value is None else _said(type_info(type(value)), value)


def _said(kind: mi.Type, value: Any) -> Any:
    match kind:
        case _ if value is None:
            found = None
        case mi.Metadata():
            found = _spelled(kind, value)
        case mi.UnionType():
            found = _said(next(each for each in kind.types if is_of(each, value)), value)
        case mi.StructType():
            found = _fields(kind, value)
        case mi.VarTupleType():
            found = [_said(kind.item_type, each) for each in value]
        case _:
            found = msgspec.to_builtins(value)
    return found


def _spelled(kind: mi.Metadata, value: Any) -> Any:
    """A value in the one spelling that its declaration gives it."""
    canonical = (kind.extra or {}).get(CANONICAL)
    if canonical is not None:
        return canonical(value)
    found = _said(kind.type, value)
    if (kind.extra_json_schema or {}).get("x-kubernetes-list-type") in _UNORDERED:
        return sorted(found, key=lambda each: msgspec.json.encode(each, order="sorted"))
    return found


def _fields(kind: mi.StructType, value: Any) -> dict[str, Any]:
    found = {
        part.encode_name: _said(part.type, getattr(value, part.name))
        for part in kind.fields
        if getattr(value, part.name) != _default(part)
    }
    return {name: each for name, each in found.items() if each not in (None, {})}


def _default(part: mi.Field) -> Any:
    if part.default_factory is not msgspec.NODEFAULT:
        return part.default_factory()
    return part.default
