"""``kindling catalog``: what is known about a model, and where from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from kindling_operator import catalog
from kindling_operator.cli_failure import usage
from kindling_operator.model.architecture import CatalogEntry
from kindling_operator.model.quantities import format_bytes


def catalog_command(options: argparse.Namespace) -> int:
    """Print the list of models, or the facts of one."""
    if options.name is None:
        for name in catalog.NAMES:
            print(_line(catalog.load(name)))
        print(f"{'custom':<10} an architecture of your own, in spec.model.custom")
        return 0
    if options.name not in catalog.NAMES:
        known = ", ".join(catalog.NAMES)
        raise usage(f"the catalog has no {options.name!r}; it has {known}")
    entry = catalog.load(options.name)
    for path, value in facts(entry):
        print(f"{path:<48} {value:<40} {catalog.source_of(entry, path)}".rstrip())
    return 0


def facts(entry: CatalogEntry) -> Iterator[tuple[str, str]]:
    """Every fact of an entry by its path; items of lists go by their name."""
    wire = msgspec.json.decode(msgspec.json.encode(entry))
    wire.pop("sources")
    yield from _leaves(wire, "")


def _line(entry: CatalogEntry) -> str:
    architecture = entry.architecture
    sizes = (f"{c.name.value} {format_bytes(c.bytes)}" for c in architecture.checkpoints)
    checkpoints = ", ".join(sizes)
    return f"{entry.name:<10} {checkpoints}; {architecture.context_length} tokens of context"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for place, below in enumerate(value):
            yield from _leaves(below, f"{path}.{below.get('name', place)}")
    elif isinstance(value, list):
        yield path, ", ".join(str(each) for each in value)
    else:
        yield path, str(value)
