"""A message or a page that names a value of the chart names one that the chart takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tests.support.install import CHART
from tests.support.messages import texts
from tests.support.onenode import ROOT

_NAME: Final = r"([a-z]\w*(?:\.\w+)*)"
_SET: Final = re.compile(rf"--set(?:-\w+)?[ =]{_NAME}=")
# Where the chart is spoken of: name=true, `name: false`, the chart's `name`.
_SWITCH: Final = re.compile(rf"(?<![\w.]){_NAME}(?:=|: )(true|false)\b")
_POSSESSED: Final = re.compile(rf"chart's `{_NAME}`")
_CLOSE: Final = 160
"""Characters between a value and the word "chart" in the same advice, at most."""


def _written() -> Iterator[str]:
    yield from texts()
    for path in (ROOT / "README.md", CHART / "templates" / "NOTES.txt"):
        yield path.read_text()
    yield from (path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))


def named(text: str) -> set[tuple[str, str]]:
    """The chart's values that a text names, each with "true" or "false" where it is told to be."""
    found = {(name, "") for name in _SET.findall(text) + _POSSESSED.findall(text)}
    for match in _SWITCH.finditer(text):
        around = text[max(0, match.start() - _CLOSE) : match.end() + _CLOSE]
        if re.search(r"\bchart\b", around):
            found.add((match[1], match[2]))
    return found


def _schema_of(name: str) -> dict[str, Any] | None:
    part: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    definitions = part["definitions"]
    for step in name.split("."):
        part = definitions.get(part.get("$ref", "").removeprefix("#/definitions/"), part)
        if step not in part.get("properties", {}):
            return None
        part = part["properties"][step]
    return part


def test_what_counts_as_a_value_that_is_named() -> None:
    assert named("install the chart with developmentStore.enabled=true.") == {
        ("developmentStore.enabled", "true")
    }
    assert named("`proveEndpoint: false` in the chart's values") == {("proveEndpoint", "false")}
    assert named("helm install x --set images.registry=R") == {("images.registry", "")}
    assert named("describe it under the chart's `runtimes`") == {("runtimes", "")}
    assert named("enforce_eager=true") == set()


def test_every_value_that_is_named_is_one_of_the_charts() -> None:
    found = set().union(*map(named, _written()))
    schemas = {name: _schema_of(name) for name, _ in found}

    assert schemas.keys() >= {"developmentStore", "images.registry", "proveEndpoint", "runtimes"}
    assert [name for name, schema in schemas.items() if schema is None] == []
    switches = {name for name, value in found if value}
    assert [name for name in switches if (schemas[name] or {})["type"] != "boolean"] == []
