"""What the runtime images can do: facts with their sources, as data beside this file."""

from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
import yaml
from msgspec import structs

from kindling_operator.catalog import CatalogError
from kindling_operator.model.runtime import EngineFacts, RuntimeFacts

NAMES: Final = ("cpu", "cuda")
"""This release's own images."""


@cache
def load(name: str) -> RuntimeFacts:
    """The facts of one of `NAMES`. Raises `CatalogError` for a file that has none."""
    return decode(_text(name), f"catalog/runtimes/{name}.yaml")


def load_all(further: Iterable[RuntimeFacts] = ()) -> dict[str, RuntimeFacts]:
    """This release's own and further images by name; a further one replaces none of ours.

    Raises `CatalogError` for two of the same name and for a further one without a digest.
    """
    found = {name: load(name) for name in NAMES}
    for facts in further:
        if facts.name in found:
            raise CatalogError(f"two runtimes are called {facts.name!r}: rename one")
        if not facts.digests:
            raise CatalogError(f"runtime {facts.name!r} has no digests: list those of its image")
        found[facts.name] = facts
    return found


def decode(text: str, where: str) -> RuntimeFacts:
    """The facts in a YAML text, with what is known of its vLLM: model classes and options.

    Raises `CatalogError`, which names `where`, for a text that is no such document.
    """
    return _complete(_convert(text, RuntimeFacts, where))


def decode_all(text: str) -> tuple[RuntimeFacts, ...]:
    """The facts in a YAML list of further images; none in an empty text. Errors as in `decode`."""
    found = _convert(text, tuple[RuntimeFacts, ...] | None, "runtimes") or ()
    return tuple(_complete(facts) for facts in found)


def _convert(text: str, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(yaml.safe_load(text), kind)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogError(f"{where}: {error}") from error


def _complete(facts: RuntimeFacts) -> RuntimeFacts:
    gone = {name: last for name, last in _history().items() if _older(last, facts.vllm)}
    engine = facts.engine or load_engine(facts.vllm)
    return structs.replace(facts, removed={**gone, **facts.removed}, engine=engine)


@cache
def load_engine(vllm: str) -> EngineFacts | None:
    """What a release of vLLM knows; None for one that this operator has no facts of.

    The files are what images/describe_vllm.py printed in an image with that release.
    """
    path = resources.files(__package__).joinpath(f"vllm-{vllm}.json")
    return msgspec.json.decode(path.read_bytes(), type=EngineFacts) if path.is_file() else None


@cache
def _history() -> dict[str, str]:
    """Model classes that vLLM once had, with the last version of each."""
    return msgspec.convert(yaml.safe_load(_text("removed")), dict[str, str])


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(f"{name}.yaml").read_text("utf-8")


def _older(version: str, than: str) -> bool:
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
