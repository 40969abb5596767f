"""Print what a vLLM knows: model classes and options of `vllm serve`, as catalog/runtimes has it.

Runs with the Python of an image, alone; it needs no GPU:
    podman run --rm --interactive --entrypoint python IMAGE - < images/describe_vllm.py
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

GENERATES = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")
POOLS = (
    "_EMBEDDING_MODELS",
    "_LATE_INTERACTION_MODELS",
    "_REWARD_MODELS",
    "_TOKEN_CLASSIFICATION_MODELS",
    "_SEQUENCE_CLASSIFICATION_MODELS",
)
DRAFTS = ("_SPECULATIVE_DECODING_MODELS",)
WRAPPERS = ("_TRANSFORMERS_BACKEND_MODELS",)
"""Names of vLLM's own wrappers around Transformers, for every purpose; no checkpoint has them."""
GONE = ("_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS")

TRANSFORMERS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
)
"""Transformers' tables of classes that generate text."""

SOURCES = {
    "classes": "model_executor/models/registry.py",
    "classes.endings": "config/model.py (_SUFFIX_TO_DEFAULTS); model_executor/models/registry.py"
    " (_normalize_arch)",
    "classes.throughTransformers": "model_executor/models/registry.py (_try_resolve_transformers),"
    " asked of transformers ",
    "classes.transcribes": "supports_transcription_only in model_executor/models",
    "options": "the parser of `vllm serve` (entrypoints/common/cli_args.py, engine/arg_utils.py)",
}


def classes() -> dict[str, list[str]]:
    """Names in `architectures` of config.json, by what vLLM does with them."""
    registry = importlib.import_module("vllm.model_executor.models.registry")
    told = names(registry, GENERATES)
    speech = {name for name in told if only_transcribes(registry, name)}
    found = {
        "generates": told - speech,
        "throughTransformers": transformers_classes() - registry._VLLM_MODELS.keys(),
        "transcribes": speech,
        "pools": names(registry, POOLS) - told,
        "drafts": names(registry, DRAFTS),
    }
    found["throughTransformers"] -= names(registry, GONE)
    config = importlib.import_module("vllm.config.model")
    endings = config.iter_architecture_defaults()
    generating = [ending for ending, (runner, _) in endings if runner == "generate"]
    every = set().union(*found.values()) | names(registry, (*WRAPPERS, *GONE))
    assert registry._VLLM_MODELS.keys() <= every, "the registry has a section that is not read here"
    return {**{kind: sorted(those) for kind, those in found.items()}, "endings": generating}


def names(registry: Any, sections: Iterable[str]) -> set[str]:
    """The classes of some sections of the registry."""
    return {name for section in sections for name in getattr(registry, section)}


def only_transcribes(registry: Any, name: str) -> bool:
    """Whether a class serves speech alone, read from its source: many import on a GPU only."""
    module, cls = registry._VLLM_MODELS[name]
    top = Path(registry.__file__).parents[2]
    place = module.removeprefix("vllm.") if "." in module else f"model_executor.models.{module}"
    path = top.joinpath(*place.split("."))
    files = [path.with_suffix(".py")] if not path.is_dir() else sorted(path.rglob("*.py"))
    return any("supports_transcription_only = True" in text for text in bodies(files, cls))


def bodies(files: Iterable[Path], cls: str) -> Iterator[str]:
    """The statements of a class in some files."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name == cls:
                yield from (ast.unparse(statement) for statement in node.body)


def transformers_classes() -> set[str]:
    """Classes of Transformers that generate text and that vLLM would wrap."""
    tables = importlib.import_module("transformers.models.auto.modeling_auto")
    library = importlib.import_module("transformers")
    found: set[str] = set()
    for table in TRANSFORMERS:
        for value in getattr(tables, table).values():
            found.update([value] if isinstance(value, str) else value)
    return {name for name in found if wrapped(getattr(library, name))}


def wrapped(model: Any) -> bool:
    """vLLM's own question to a class of Transformers."""
    return bool(model.is_backend_compatible() or model._can_set_attn_implementation())


def options() -> dict[str, dict[str, object]]:
    """The options by their first long spelling: further spellings, and whether a value follows."""
    command = importlib.import_module(cli_args())
    reader = importlib.import_module("vllm.utils.argparse_utils")
    parser = command.make_arg_parser(reader.FlexibleArgumentParser())
    spellings: dict[argparse.Action, list[str]] = {}
    for spelling, action in parser._option_string_actions.items():
        spellings.setdefault(action, []).append(spelling)
    return dict(option(action, those) for action, those in spellings.items())


def cli_args() -> str:
    """The module that makes the parser, which has moved between releases."""
    for name in ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.launchers.cli_args"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name).__name__
    raise SystemExit("vLLM's cli_args has moved: look for make_arg_parser and name its module here")


def option(action: argparse.Action, spellings: list[str]) -> tuple[str, dict[str, object]]:
    """One entry; the value is Required where nothing is said."""
    name = next(each for each in spellings if each.startswith("--"))
    entry: dict[str, object] = {}
    if len(spellings) > 1:
        entry["also"] = [each for each in spellings if each != name]
    if action.nargs in (0, "?", "*"):
        entry["value"] = "None" if action.nargs == 0 else "Optional"
    return name, entry


def lines(known: dict[str, list[str]], given: dict[str, dict[str, object]]) -> Iterator[str]:
    """The document, with one name in each line: a difference between releases is read by eye."""
    version = importlib.import_module("vllm").__version__.partition("+")[0]
    transformers = importlib.import_module("transformers").__version__
    sources = {fact: f"vLLM {version}, {source}" for fact, source in SOURCES.items()}
    sources["classes.throughTransformers"] += transformers
    yield '{"classes": {'
    for last, (kind, those) in numbered(known.items()):
        yield f' "{kind}": ['
        yield from (f'  "{name}"{"" if end else ","}' for end, name in numbered(those))
        yield f" ]{'' if last else ','}"
    yield '}, "options": {'
    for last, (name, entry) in numbered(given.items()):
        yield f' "{name}": {json.dumps(entry)}{"" if last else ","}'
    yield '}, "sources": {'
    for last, (fact, source) in numbered(sources.items()):
        yield f' "{fact}": {json.dumps(source)}{"" if last else ","}'
    yield "}}"


def numbered(items: Iterable[Any]) -> Iterator[tuple[bool, Any]]:
    """The items, each with whether it is the last."""
    those = list(items)
    return ((place == len(those), each) for place, each in enumerate(those, 1))


def main() -> None:
    """Print the document; whatever vLLM says while it is imported goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        document = "\n".join(lines(classes(), options()))
    sys.stdout.write(f"{document}\n")


if __name__ == "__main__":
    main()
