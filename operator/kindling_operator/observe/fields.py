"""Reading objects that may be odd: a field of the wrong type counts as absent."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kindling_operator.model.quantities import quantity_bytes, quantity_millis

Body = Mapping[str, Any]

LONG_AGO: Final = datetime.fromtimestamp(0, UTC)
"""Stands for a creation time that cannot be read."""

_EMPTY: Final[Mapping[str, Any]] = {}


def mapping(body: object, *path: str) -> Mapping[str, Any]:
    """The object at `path`, or an empty one."""
    found = _at(body, path)
    return found if isinstance(found, Mapping) else _EMPTY


def items(body: object, *path: str) -> Iterator[Mapping[str, Any]]:
    """The objects in the list at `path`."""
    found = _at(body, path)
    if isinstance(found, (list, tuple)):
        yield from (item for item in found if isinstance(item, Mapping))


def text(body: object, *path: str) -> str:
    """The string at `path`, or ""."""
    found = _at(body, path)
    return found if isinstance(found, str) else ""


def number(body: object, *path: str) -> int:
    """The integer at `path`, or 0."""
    found = _at(body, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def flag(body: object, *path: str) -> bool:
    """Whether `path` holds true."""
    return _at(body, path) is True


def moment(body: object, *path: str) -> datetime:
    """The time at `path`, or LONG_AGO."""
    try:
        found = datetime.fromisoformat(text(body, *path))
    except ValueError:
        return LONG_AGO
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def strings(body: object, *path: str) -> dict[str, str]:
    """The string-to-string entries of the object at `path`."""
    found = mapping(body, *path)
    return {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, str)}


def amount(body: object, *path: str) -> int:
    """The quantity at `path` in whole units (bytes, devices), or 0."""
    found = _at(body, path)
    try:
        return quantity_bytes(found) if isinstance(found, (int, str)) else 0
    except ValueError:
        return 0


def millis(body: object, *path: str) -> int:
    """The quantity at `path` in thousandths, or 0."""
    found = _at(body, path)
    try:
        return quantity_millis(found) if isinstance(found, (int, str)) else 0
    except ValueError:
        return 0


def _at(body: object, path: tuple[str, ...]) -> object:
    found = body
    for step in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found
