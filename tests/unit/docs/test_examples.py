"""Every example of the docs is an object that Kindling takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.support.install import CHART
from tests.support.onenode import ROOT

from kindling_operator.model.parse import ParsedModel, parse

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid(path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        manifest["metadata"].setdefault("namespace", "default")
        assert isinstance(parsed := parse(manifest), ParsedModel), parsed


def test_the_chart_suggests_the_example_of_the_readme() -> None:
    """The same five lines; in the README they name a namespace as well."""
    shown = re.search(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    told = re.search(
        r"<<EOF\n(.*?)  EOF\n", (CHART / "templates" / "NOTES.txt").read_text(), re.DOTALL
    )
    assert shown
    assert told
    readme = yaml.safe_load(shown[1])
    notes = yaml.safe_load(told[1])
    del readme["metadata"]["namespace"]

    assert notes == readme
    assert isinstance(
        parse({**readme, "metadata": {"name": "flint", "namespace": "ml"}}), ParsedModel
    )
