"""Checks a parsed spec against the rules of its fields, in Python: what the API server does in CEL.

The rules themselves stand beside the fields that they judge (`fields.Rule`).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec import inspect as mi

from kindling_operator.model.fields import Rule, Spec, matches
from kindling_operator.model.names import MAX_NAME_LENGTH

NAME_RULES: Final = (
    Rule(
        cel=f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
        message=f"use at most {MAX_NAME_LENGTH} characters: the names of the Service and of every"
        " revision's Deployment are made from it",
        holds=lambda name: len(name) <= MAX_NAME_LENGTH,
        path=".metadata.name",
    ),
    Rule(
        cel="self.metadata.name.matches(r'^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        message="begin with a letter, end with a letter or digit and use lower-case letters, digits"
        " and '-' only: the Service of the endpoint gets this name",
        holds=matches("^[a-z]([-a-z0-9]*[a-z0-9])?$", "").holds,
        path=".metadata.name",
    ),
)


def name_problem(name: str) -> str | None:
    """Why an InferenceModel cannot have this name, or None."""
    return _first_broken(NAME_RULES, name, "")


def spec_problem(spec: Spec) -> str | None:
    """The first broken rule as one sentence that names the field and the value, or None."""
    judged = _judged(type_info(type(spec)), spec, "spec")
    problems = (_first_broken(rules, value, path) for rules, value, path in judged)
    return next((problem for problem in problems if problem is not None), None)


def _first_broken(rules: tuple[Rule, ...], value: Any, path: str) -> str | None:
    for rule in rules:
        if rule.holds is not None and not rule.holds(value):
            shown = f" {value!r}" if isinstance(value, int | str) else ""
            return f"{path}{rule.path}".lstrip(".") + f"{shown}: {rule.sentence(value)}"
    return None


type_info: Final = cache(mi.type_info)
"""The declared type of a part of the spec; made once per type."""

_Place = tuple[mi.Type, Any, str]
"""A type, a value of it, and the value's path."""


def _judged(kind: mi.Type, value: Any, path: str) -> Iterator[tuple[tuple[Rule, ...], Any, str]]:
    """Every value that has rules, with its path: parts before the whole that they make up."""
    for part in _parts(kind, value, path):
        yield from _judged(*part)
    yield _rules(kind, value), value, path


def _parts(kind: mi.Type, value: Any, path: str) -> Iterator[_Place]:
    """What a value is made of, or the same value as a narrower type."""
    match kind:
        case mi.Metadata():
            yield kind.type, value, path
        case mi.UnionType():
            yield from ((option, value, path) for option in kind.types if is_of(option, value))
        case mi.StructType():
            for part in kind.fields:
                yield part.type, getattr(value, part.name), f"{path}.{part.encode_name}"
        case mi.VarTupleType():
            yield from ((kind.item_type, v, f"{path}[{i}]") for i, v in enumerate(value))
        case mi.DictType():
            yield from ((kind.value_type, v, f"{path}[{k}]") for k, v in value.items())


def _rules(kind: mi.Type, value: Any) -> tuple[Rule, ...]:
    match kind:
        case mi.StructType():
            found: tuple[Rule, ...] = value.rules
        case mi.Metadata() if value is not None:
            found = (*_unique(kind), *(kind.extra or {}).get("rules", ()))
        case _:
            found = ()
    return found


def _unique(kind: mi.Metadata) -> tuple[Rule, ...]:
    """That no item of a set, and no key of a list map, stands twice: structural for the server."""
    keys = (kind.extra_json_schema or {}).get("x-kubernetes-list-map-keys")
    if keys is None and (kind.extra_json_schema or {}).get("x-kubernetes-list-type") != "set":
        return ()

    def identities(items: tuple[Any, ...]) -> list[Any]:
        return [tuple(getattr(item, key) for key in keys) if keys else item for item in items]

    def holds(items: tuple[Any, ...]) -> bool:
        return len(set(identities(items))) == len(items)

    what = f"`{keys[0]}`" if keys else "item"
    return (Rule(cel="", message=f"the same {what} stands twice: remove one", holds=holds),)


_PLAIN: Final[Mapping[type[mi.Type], type]] = {
    mi.VarTupleType: tuple,
    mi.DictType: dict,
    mi.IntType: int,
    mi.StrType: str,
    mi.BoolType: bool,
}


def is_of(kind: mi.Type, value: Any) -> bool:
    """Whether a value is of this member of a union."""
    bare = kind.type if isinstance(kind, mi.Metadata) else kind
    if isinstance(bare, mi.UnionType):
        return any(is_of(option, value) for option in bare.types)
    if isinstance(bare, mi.StructType | mi.EnumType):
        return isinstance(value, bare.cls)
    plain = _PLAIN.get(type(bare))
    return plain is not None and isinstance(value, plain)
