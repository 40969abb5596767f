"""Every example of the docs is an object that Kindling takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support.manifests import tiny
from tests.support.onenode import ROOT

from kindling_operator.model.parse import ParsedModel, parse

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid(path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        manifest["metadata"].setdefault("namespace", "default")
        assert isinstance(parsed := parse(manifest), ParsedModel), parsed


def test_the_tests_serve_what_the_docs_show() -> None:
    shown = yaml.safe_load((ROOT / "docs" / "examples" / "tiny.yaml").read_text())

    assert tiny("tiny", "default")["spec"] == shown["spec"]
