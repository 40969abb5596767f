"""``kindling catalog``: what is known about a model, and where from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kindling_operator import catalog
from kindling_operator.catalog import runtimes
from kindling_operator.catalog.facts import facts
from kindling_operator.cli_catalog_import import import_command
from kindling_operator.cli_failure import usage
from kindling_operator.model.architecture import CatalogEntry
from kindling_operator.model.quantities import format_bytes

IMPORT = "import"
"""The word that stands where else the name of a model does."""


def add_catalog(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and what it takes."""
    parser = commands.add_parser(
        "catalog",
        help="the models that Kindling knows, each fact with its source",
        description="List the models, or every fact of one with its source. `catalog import DIR`"
        " makes an entry of a checkpoint's config.json and compares it with the shipped one.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=catalog_command)
    parser.add_argument("name", nargs="?", help="one model in full, or the word import")
    parser.add_argument("folder", nargs="?", metavar="DIR", help="with import: the checkpoint")


def catalog_command(options: argparse.Namespace) -> int:
    """Print the list of models, or the facts of one, or a folder as an entry."""
    if (options.name == IMPORT) is not (options.folder is not None):
        raise usage("write `kindling catalog import DIR`, `kindling catalog NAME` or neither")
    if options.folder is not None:
        return import_command(options.folder)
    if options.name is None:
        for name in catalog.NAMES:
            print(_line(catalog.load(name)))
        print(f"{'custom':<10} an architecture of your own, in spec.model.custom")
        return 0
    if options.name not in catalog.NAMES:
        known = ", ".join(catalog.NAMES)
        raise usage(f"the catalog has no {options.name!r}; it has {known}")
    entry = catalog.load(options.name)
    told = ((path, value, catalog.source_of(entry, path)) for path, value in facts(entry))
    for path, value, source in (*told, *runtime_facts(entry)):
        print(f"{path:<48} {value:<40} {source}".rstrip())
    return 0


def runtime_facts(entry: CatalogEntry) -> Iterator[tuple[str, str, str]]:
    """What this release's images can do with a model: path, value, source."""
    for runtime in runtimes.load_all().values():
        model = runtime.on(entry.architecture.architecture)
        if model is None:
            continue
        where = f"runtimes.{runtime.name}"
        yield f"{where}.vllm", runtime.vllm, runtime.sources.get("vllm", "")
        for each in model.capabilities:
            other = None if each.feature else "otherGPUs"
            about = (each.feature, each.gpu_architecture or other, each.checkpoint)
            words = ".".join(str(word) for word in about if word)
            yield f"{where}.{words}", each.status.value, f"{each.reason} ({each.source})"
        for kernel in model.kernels:
            words = ".".join(("kernel", kernel.kind.value, *kernel.gpu_architectures))
            yield f"{where}.{words}", kernel.backend, kernel.source


def _line(entry: CatalogEntry) -> str:
    architecture = entry.architecture
    sizes = (f"{c.name.value} {format_bytes(c.bytes)}" for c in architecture.checkpoints)
    checkpoints = ", ".join(sizes)
    return f"{entry.name:<10} {checkpoints}; {architecture.context_length} tokens of context"
