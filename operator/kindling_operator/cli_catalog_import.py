"""``kindling catalog import``: a checkpoint's own files as a catalog entry, and what drifted."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from kindling_operator import catalog
from kindling_operator.catalog.facts import facts
from kindling_operator.catalog.folder import Found, read
from kindling_operator.catalog.reading import ConfigError
from kindling_operator.cli_failure import REFUSED, Failure
from kindling_operator.model.architecture import Architecture, CatalogEntry, Checkpoint
from kindling_operator.model.fields import MAX_EXACT
from kindling_operator.model.rules import spec_problem
from kindling_operator.plan.architecture import architecture_problem
from kindling_operator.plan.weights import OTHER_WEIGHTS, weight_parts

_SAME_SIZE_PERCENT: Final = 1
"""Files and device memory of one checkpoint differ by this much: padding, formats, rounding."""
_UNTOLD: Final = re.compile(
    r"architecture\.(towers|tensorParallelSizes|devices)\b.*"
    r"|architecture\.checkpoints\.\w+\.(repository|configRepository|revision|replicatedBytes|quantized)"
)
"""Facts that vLLM's code tells, or a measurement, or nobody but us: no file of the folder."""


def import_command(folder: str) -> int:
    """Print the entry of a folder; 0 if it is as shipped or not shipped, 1 if it has drifted.

    Raises `Failure` for a folder that cannot be read.
    """
    try:
        found = read(Path(folder))
        shipped = _shipped(found.architecture["architecture"])
        entry = _entry(found, shipped.name if shipped is not None else _slug(folder))
    except (ConfigError, msgspec.ValidationError) as error:
        raise Failure(f"{folder}: {error}", code=REFUSED) from error
    print(yaml.safe_dump(msgspec.to_builtins(entry), sort_keys=False, width=100), end="")
    if shipped is None:
        print("kindling: the catalog has no such model, nothing to compare", file=sys.stderr)
        return 0
    drifted = [*drift(entry, shipped)]
    for line in drifted:
        print(line, file=sys.stderr)
    told = f"facts that differ: {len(drifted)}" if drifted else "all that the files tell agrees"
    print(f"kindling: compared with the catalog's {shipped.name}: {told}", file=sys.stderr)
    return REFUSED if drifted else 0


def drift(entry: CatalogEntry, shipped: CatalogEntry) -> Iterator[str]:
    """Every fact that an imported entry and the shipped one tell differently, by its path."""
    theirs, ours = _comparable(entry, entry), _comparable(shipped, entry)
    for path in dict.fromkeys((*theirs, *ours)):
        value, known = theirs.get(path), ours.get(path)
        if value is None and path.endswith(".expertBytes"):
            continue
        if value == known or (_is_size(path) and value and known and _alike(value, known)):
            continue
        yield f"{path}: the folder has {value or 'nothing'}, the catalog {known or 'nothing'}"


def _comparable(entry: CatalogEntry, imported: CatalogEntry) -> dict[str, str]:
    """The facts of an entry that files tell, of the checkpoints that were imported."""
    names = {c.name for c in imported.architecture.checkpoints}
    kept = tuple(c for c in entry.architecture.checkpoints if c.name in names)
    narrowed = msgspec.structs.replace(
        entry, architecture=msgspec.structs.replace(entry.architecture, checkpoints=kept)
    )
    return {
        path: value
        for path, value in facts(narrowed)
        if path.startswith("architecture.") and not _UNTOLD.fullmatch(path)
    }


def _is_size(path: str) -> bool:
    return path.endswith((".bytes", ".expertBytes"))


def _alike(one: str, other: str) -> bool:
    return abs(int(one) - int(other)) * 100 <= _SAME_SIZE_PERCENT * int(one)


def _entry(found: Found, name: str) -> CatalogEntry:
    weights = found.weights
    checkpoint = {"name": weights.format, "bytes": weights.bytes or MAX_EXACT}
    if weights.expert_bytes is not None:
        checkpoint["expertBytes"] = weights.expert_bytes
    architecture = msgspec.convert(found.architecture | {"checkpoints": [checkpoint]}, Architecture)
    if weights.bytes is None:
        architecture = msgspec.structs.replace(
            architecture, checkpoints=(_from_shapes(architecture),)
        )
    problem = spec_problem(architecture) or architecture_problem(architecture)
    if problem is not None:
        raise ConfigError(
            f"what config.json describes does not add up: {problem.removeprefix('spec.')}."
        )
    return CatalogEntry(
        name=name,
        title=name,
        architecture=architecture,
        sources={"architecture": "config.json", "architecture.checkpoints": weights.source},
    )


def _from_shapes(architecture: Architecture) -> Checkpoint:
    """The checkpoint as large as the shapes say, norms left out."""
    checkpoint = architecture.checkpoints[0]
    depths = architecture.draft.depths if architecture.draft is not None else 0
    parts = weight_parts(architecture, checkpoint, draft=depths, modalities=architecture.modalities)
    size = sum(part.bytes for part in parts if part.name != OTHER_WEIGHTS)
    return msgspec.structs.replace(checkpoint, bytes=size)


def _shipped(architecture: str) -> CatalogEntry | None:
    entries = catalog.load_all().values()
    return next((e for e in entries if e.architecture.architecture == architecture), None)


def _slug(folder: str) -> str:
    words: Any = re.findall(r"[a-z0-9]+", Path(folder).resolve().name.lower())
    return "-".join(words) or "model"
