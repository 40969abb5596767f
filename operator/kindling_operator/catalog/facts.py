"""An entry as a list of facts, each with a path: what people read, and what is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kindling_operator.model.architecture import CatalogEntry


def facts(entry: CatalogEntry) -> Iterator[tuple[str, str]]:
    """Every fact of an entry by its path; items of lists go by their name."""
    wire = msgspec.json.decode(msgspec.json.encode(entry))
    wire.pop("sources")
    yield from _leaves(wire, "")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for place, below in enumerate(value):
            name = below.get("name", below.get("modality", place))
            yield from _leaves(below, f"{path}.{name}")
    elif isinstance(value, list):
        yield path, ", ".join(str(each) for each in value)
    else:
        yield path, str(value)
