"""The models that Kindling knows: facts with their sources, as data beside this file."""

from functools import cache
from importlib import resources
from typing import Final

import msgspec
import yaml

from kindling_operator.model.architecture import CatalogEntry

NAMES: Final = ("flint", "inkling")


class CatalogError(ValueError):
    """A catalog file that is not an entry; the text names the file and the field."""


@cache
def load(name: str) -> CatalogEntry:
    """The entry of one of `NAMES`.

    Raises `CatalogError` for a file that is no entry, `KeyError` for a name that has none.
    """
    if name not in NAMES:
        raise KeyError(f"the catalog has no {name!r}; it has {', '.join(NAMES)}")
    return decode(resources.files(__package__).joinpath(f"{name}.yaml").read_text("utf-8"), name)


def load_all() -> dict[str, CatalogEntry]:
    """Every entry by its name."""
    return {name: load(name) for name in NAMES}


def decode(text: str, name: str) -> CatalogEntry:
    """The entry in a YAML text; raises `CatalogError` if it is none, or that of another model."""
    try:
        entry = msgspec.convert(yaml.safe_load(text), CatalogEntry)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogError(f"catalog/{name}.yaml: {error}") from error
    if entry.name != name:
        raise CatalogError(f"catalog/{name}.yaml describes {entry.name!r}; name it {name!r}")
    return entry


def source_of(entry: CatalogEntry, path: str) -> str:
    """Where a fact is from: the source of its path, or of the nearest path above; "" if none."""
    while path:
        if path in entry.sources:
            return entry.sources[path]
        path = path.rpartition(".")[0]
    return ""
