"""The catalog: every number has a source, and every entry passes what users' architectures must."""

from typing import Any

import msgspec
import pytest

from kindling_operator import catalog
from kindling_operator.catalog.facts import facts
from kindling_operator.model.architecture import CatalogEntry, CheckpointName
from kindling_operator.model.rules import spec_problem
from kindling_operator.plan.architecture import architecture_problem

ENTRIES = pytest.mark.parametrize("entry", catalog.load_all().values(), ids=catalog.NAMES)

UNSOURCED = ("name", "title", "forbiddenArguments")
"""Names need no source; rows of the list carry theirs."""


@ENTRIES
def test_every_fact_has_a_source(entry: CatalogEntry) -> None:
    without = [
        path
        for path, _ in facts(entry)
        if not path.startswith(UNSOURCED) and not catalog.source_of(entry, path)
    ]
    names = {f"architecture.checkpoints.{c.name.value}" for c in entry.architecture.checkpoints}
    allowed = {"architecture.architecture", "architecture.modalities"} | {
        f"{name}.{field}" for name in names for field in ("name", "repository")
    }

    assert set(without) <= allowed


@ENTRIES
def test_every_source_belongs_to_a_fact(entry: CatalogEntry) -> None:
    paths = [path for path, _ in facts(entry)]

    orphans = [s for s in entry.sources if not any(p == s or p.startswith(f"{s}.") for p in paths)]

    assert orphans == []


@ENTRIES
def test_every_entry_adds_up(entry: CatalogEntry) -> None:
    assert spec_problem(entry.architecture) is None
    assert architecture_problem(entry.architecture) is None


@ENTRIES
def test_every_forbidden_argument_has_a_source(entry: CatalogEntry) -> None:
    assert entry.forbidden_arguments
    assert all(f.source and not f.reason.endswith(".") for f in entry.forbidden_arguments)


def elements_of_experts(entry: CatalogEntry) -> int:
    experts, hidden = entry.architecture.experts, entry.architecture.hidden_size
    assert experts is not None
    return experts.layers * experts.count * 3 * hidden * experts.intermediate_size


IN_BF16 = {"flint": 0, "inkling": 1}
"""Layers whose experts the NVFP4 checkpoint keeps in bfloat16."""


@ENTRIES
def test_expert_bytes_follow_from_the_shapes(entry: CatalogEntry) -> None:
    by_name = {c.name: c for c in entry.architecture.checkpoints}
    elements, experts = elements_of_experts(entry), entry.architecture.experts
    assert experts is not None
    kept = elements * IN_BF16[entry.name] // experts.layers

    assert by_name[CheckpointName.BF16].expert_bytes == elements * 2
    expected = (elements - kept) * 9 // 16 + kept * 2
    assert by_name[CheckpointName.NVFP4].expert_bytes == expected


def test_inkling_keeps_its_embedding_on_every_rank() -> None:
    architecture = catalog.load("inkling").architecture
    embedding = architecture.vocabulary_size * architecture.hidden_size * 2

    assert {c.replicated_bytes for c in architecture.checkpoints} == {embedding}


def test_entries_are_read_once() -> None:
    assert catalog.load("flint") is catalog.load("flint")


def test_an_unknown_name() -> None:
    with pytest.raises(KeyError, match="the catalog has no 'llama'; it has flint, inkling"):
        catalog.load("llama")


WRONG: dict[str, tuple[Any, str]] = {
    "no YAML": ("{", "catalog/flint.yaml: "),
    "a field too many": ({"colour": "red"}, "unknown field `colour`"),
    "a field too few": ({}, "required field `name`"),
    "another model": (
        msgspec.to_builtins(catalog.load("inkling")),
        "catalog/flint.yaml describes 'inkling'; name it 'flint'",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_named(text: Any, message: str) -> None:
    given = text if isinstance(text, str) else msgspec.json.encode(text).decode()

    with pytest.raises(catalog.CatalogError, match=message):
        catalog.decode(given, "flint")
