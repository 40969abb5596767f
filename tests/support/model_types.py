"""The typed model, seen from outside."""

from collections.abc import Iterator

from msgspec import inspect as mi

from kindling_operator.model.fields import Rule


def all_rules(kind: mi.Type) -> Iterator[Rule]:
    """Every rule of a type and of the types below it."""
    match kind:
        case mi.Metadata():
            yield from (kind.extra or {}).get("rules", ())
            yield from all_rules(kind.type)
        case mi.UnionType():
            for option in kind.types:
                yield from all_rules(option)
        case mi.StructType():
            yield from getattr(kind.cls, "rules", ())
            for part in kind.fields:
                yield from all_rules(part.type)
        case mi.VarTupleType():
            yield from all_rules(kind.item_type)
        case mi.DictType():
            yield from all_rules(kind.value_type)
