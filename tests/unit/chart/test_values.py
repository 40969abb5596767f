"""values.yaml, its schema and Chart.yaml agree with each other and with the project."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import msgspec
import yaml
from tests.support.install import CHART
from tests.support.onenode import ROOT

from kindling_operator.catalog import runtimes
from kindling_operator.model.runtime import RuntimeFacts

VALUES = CHART / "values.yaml"
FREE_FORM = {"resources", "nodeSelector"}
"""Values whose keys are Kubernetes' own, or the user's."""


def _schema() -> dict[str, Any]:
    return dict(json.loads((CHART / "values.schema.json").read_text()))


def _resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    name = part.get("$ref", "").removeprefix("#/definitions/")
    return dict(schema["definitions"][name]) if name else part


def _names(schema: dict[str, Any], part: dict[str, Any], path: str = "") -> set[str]:
    """Paths of all values that the schema names."""
    found = set()
    for name, child in part.get("properties", {}).items():
        child_path = f"{path}{name}"
        found.add(child_path)
        if name not in FREE_FORM:
            found |= _names(schema, _resolved(schema, child), f"{child_path}.")
    return found


def _paths(values: dict[str, Any], path: str = "") -> set[str]:
    """Paths of all values that values.yaml has."""
    found = set()
    for name, child in values.items():
        found.add(f"{path}{name}")
        if isinstance(child, dict) and name not in FREE_FORM:
            found |= _paths(child, f"{path}{name}.")
    return found


def _objects(part: Any) -> list[dict[str, Any]]:
    """Every sub-schema that lists properties."""
    if isinstance(part, list):
        return [found for each in part for found in _objects(each)]
    if not isinstance(part, dict):
        return []
    below = [found for each in part.values() for found in _objects(each)]
    return [part, *below] if part.get("type") == "object" and "properties" in part else below


def test_the_schema_knows_exactly_the_values_of_the_file() -> None:
    """`global` is helm's own: a parent chart sets it."""
    schema = _schema()

    assert _names(schema, schema) - {"global"} == _paths(yaml.safe_load(VALUES.read_text()))


def test_the_schema_refuses_unknown_names_at_every_level() -> None:
    assert [
        part for part in _objects(_schema()) if part.get("additionalProperties") is not False
    ] == []


def test_a_runtime_of_the_values_has_the_fields_that_the_operator_reads() -> None:
    """A document that it cannot read would end it with exit code 64, after the install."""
    ours = _schema()["definitions"]["runtime"]
    _, parts = msgspec.json.schema_components([RuntimeFacts])
    operators = parts["RuntimeFacts"]

    assert ours["properties"].keys() == operators["properties"].keys()
    assert set(ours["required"]) == {*operators["required"], "digests"}
    assert ours["properties"]["device"]["enum"] == parts["Device"]["enum"]
    assert ours["properties"]["name"]["not"]["enum"] == list(runtimes.NAMES)
    for name, part in operators["properties"].items():
        if "type" in part:
            assert _resolved(_schema(), ours["properties"][name])["type"] == part["type"], name


def test_every_value_is_explained() -> None:
    """A comment stands right above each value, at every level."""
    unexplained, above, free_form = [], "", False
    for line in VALUES.read_text().splitlines():
        if key := re.match(r"^( *)(\w+):", line):
            free_form = key[2] in FREE_FORM or (free_form and bool(key[1]))
            if not above.startswith("#") and (key[2] in FREE_FORM or not free_form):
                unexplained.append(line.strip())
        above = line.strip()

    assert unexplained == []


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert (chart["version"], chart["appVersion"]) == (version, version)
