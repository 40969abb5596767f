"""Every example of the docs is an object that Kindling takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support.onenode import ROOT

from kindling_operator.model.parse import ParsedModel, parse

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid(path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        manifest["metadata"].setdefault("namespace", "default")
        assert isinstance(parsed := parse(manifest), ParsedModel), parsed
