"""Types of the model as structural schemas, the subset of OpenAPI that a CRD may use.

Structural means: no references, no nullable, each list says how it merges
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
"""

import inspect
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import inspect as mi

from kindling_operator.model.fields import MAX_INT32, Rule, Spec

Schema = dict[str, Any]

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_RULES: Final = "x-kubernetes-validations"


def schema_of(kind: mi.Type) -> Schema:
    """The structural schema of a type of the model.

    Raises `TypeError` for a type that a CRD cannot express or that has no bound.
    """
    match kind:
        case mi.Metadata():
            schema = _annotated(kind)
        case mi.UnionType():
            schema = _union(kind)
        case mi.StructType():
            schema = _object(kind)
        case mi.VarTupleType():
            schema = _list(kind)
        case mi.DictType():
            schema = _map(kind)
        case mi.EnumType():
            schema = {"type": "string", "enum": [member.value for member in kind.cls]}
        case mi.BoolType():
            schema = {"type": "boolean"}
        case mi.IntType():
            schema = _integer(kind)
        case mi.StrType():
            schema = _string(kind)
        case _:
            raise TypeError(f"{type(kind).__name__} cannot be part of a CRD")
    return schema


def validations(rules: Iterable[Rule]) -> list[dict[str, str]]:
    """CEL rules as a CRD holds them."""
    return [_validation(rule) for rule in rules]


def constant_message(rule: Rule) -> str:
    """The message of a rule before its values are known: N and VALUE stand in their places."""
    return rule.message.replace("%d", "N").replace("%s", "VALUE")


def _validation(rule: Rule) -> dict[str, str]:
    written = {"rule": rule.cel, "message": constant_message(rule)}
    if rule.values:
        # format() and not string(): the API server estimates the cost of the latter as unbounded.
        values = ", ".join(cel for cel, _ in rule.values)
        written["messageExpression"] = f'"{rule.message}".format([{values}])'
    if rule.path:
        written["fieldPath"] = rule.path
    return written


def paragraph(docstring: str | None) -> str:
    """A docstring as running text."""
    return " ".join(inspect.cleandoc(docstring or "").split())


def _annotated(kind: mi.Metadata) -> Schema:
    schema = schema_of(kind.type) | (kind.extra_json_schema or {})
    rules = validations((kind.extra or {}).get("rules", ()))
    if rules:
        schema[_RULES] = [*schema.get(_RULES, ()), *rules]
    return schema


def _union(kind: mi.UnionType) -> Schema:
    options = [schema_of(o) for o in kind.types if not isinstance(o, mi.NoneType)]
    if len(options) == 1:
        return options[0]
    if {option.get("type") for option in options} == {"integer", "string"}:
        # Bounds are a rule of the type: a structural schema has none for the two together.
        return {_INT_OR_STRING: True}
    raise TypeError(f"a CRD cannot hold one of {options}")


def _object(kind: mi.StructType) -> Schema:
    # What a user leaves out is filled in; a status says what its writer said.
    filled = issubclass(kind.cls, Spec)
    properties = {part.encode_name: _property(part, filled=filled) for part in kind.fields}
    schema: Schema = {"type": "object", "description": paragraph(kind.cls.__doc__)}
    if properties:
        schema["properties"] = properties
    required = [part.encode_name for part in kind.fields if part.required]
    if required:
        schema["required"] = required
    rules = validations(getattr(kind.cls, "rules", ()))
    if rules:
        schema[_RULES] = rules
    return schema


def _property(part: mi.Field, *, filled: bool) -> Schema:
    schema = schema_of(part.type)
    if "description" not in schema:
        raise TypeError(f"{part.name} has no description")
    if schema.get("type") == "array" and _LIST_TYPE not in schema:
        raise TypeError(f"{part.name} does not say how the list merges")
    default = _default(part) if filled else None
    return schema if default is None else schema | {"default": default}


def _default(part: mi.Field) -> Any:
    """The default that a user would miss; None for empty ones, which equal an absent field."""
    if part.default is msgspec.NODEFAULT or part.default is None:
        return None
    wire = msgspec.to_builtins(part.default)
    if isinstance(wire, tuple):
        wire = list(wire)
    return wire if wire or isinstance(part.default, msgspec.Struct) else None


def _list(kind: mi.VarTupleType) -> Schema:
    if kind.max_length is None:
        raise TypeError("a list without max_length")
    schema: Schema = {"type": "array", "items": schema_of(kind.item_type)}
    if kind.min_length:
        schema["minItems"] = kind.min_length
    return schema | {"maxItems": kind.max_length}


def _map(kind: mi.DictType) -> Schema:
    if kind.max_length is None:
        raise TypeError("a map without max_length")
    return {
        "type": "object",
        "additionalProperties": schema_of(kind.value_type),
        "maxProperties": kind.max_length,
    }


def _integer(kind: mi.IntType) -> Schema:
    small = kind.le is not None and kind.le <= MAX_INT32
    schema: Schema = {"type": "integer", "format": "int32" if small else "int64"}
    if kind.ge is not None:
        schema["minimum"] = kind.ge
    if kind.le is not None:
        schema["maximum"] = kind.le
    return schema


def _string(kind: mi.StrType) -> Schema:
    if kind.max_length is None:
        raise TypeError("a string without max_length")
    schema: Schema = {"type": "string"}
    if kind.min_length:
        schema["minLength"] = kind.min_length
    return schema | {"maxLength": kind.max_length}
