"""What `kindling plan` says and renders for pairs of models and clusters, reviewed by eye.

`make golden` writes the files anew. The clusters are what `kubectl get nodes -o yaml` prints.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.support.golden import check_golden
from tests.support.onenode import ROOT

from kindling_operator.cli import main

HERE: Final = Path(__file__).parent
IMAGES: Final = (
    "--cuda-image=registry.example.com/kindling/runtime@sha256:9b3f",
    "--cpu-image=registry.example.com/kindling/runtime-cpu@sha256:4d1a",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A model file on a node file, and the exit code."""

    model: str
    nodes: str
    code: int = 0

    @property
    def model_file(self) -> Path:
        tiny = ROOT / "docs" / "examples" / "tiny.yaml"
        return tiny if self.model == "tiny" else HERE / "models" / f"{self.model}.yaml"

    @property
    def nodes_file(self) -> Path:
        own = HERE / "nodes" / f"{self.nodes}.yaml"
        return own if own.exists() else ROOT / "docs" / "examples" / "nodes" / own.name


CASES: Final = (
    Case("tiny", "laptop"),
    Case("tiny", "h200"),
    Case("tiny", "empty", code=1),
    Case("gemma", "laptop"),
    Case("custom-gpu", "l40s"),
    Case("custom-gpu", "laptop", code=1),
    Case("custom-wrong-unit", "h200", code=1),
    Case("dense-32b", "l40s"),
    Case("flint", "h200"),
    Case("flint", "b200"),
    Case("flint", "h100"),
    Case("flint", "gb200"),
    Case("flint", "eks-p5"),
    Case("flint", "l40s", code=1),
    Case("flint", "workstation", code=1),
    Case("flint", "empty", code=1),
    Case("flint-workstation", "workstation"),
    Case("flint-bf16", "h100"),
    Case("flint-busy", "h200"),
    Case("flint-many", "b200"),
    Case("flint-pair", "h100"),
    Case("flint-cached", "h200"),
    Case("flint-bare", "h200"),
    Case("flint-bare", "h100"),
    Case("inkling", "gb200"),
    Case("inkling", "b200"),
    Case("inkling", "h200"),
    Case("inkling", "nvl72"),
    Case("inkling", "h100", code=1),
    Case("inkling", "h200-one", code=1),
    Case("inkling", "l40s", code=1),
    Case("inkling", "empty", code=1),
    Case("inkling-example", "b200"),
    Case("inkling-nvfp4", "h200-one"),
    Case("inkling-stages", "h200"),
    Case("inkling-rack", "nvl72"),
    Case("inkling-limited", "b200", code=1),
    Case("inkling-wide", "h200", code=1),
)
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-on-{case.nodes}")


def said(case: Case, output: str, capsys: pytest.CaptureFixture[str]) -> str:
    files = ["-f", str(case.model_file), "--nodes", str(case.nodes_file), "-n", "ml"]
    code = main(["plan", *files, *IMAGES, "-o", output])
    assert code == case.code
    return capsys.readouterr().out


@EACH
def test_plan(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE / "plan" / f"{case.model}-on-{case.nodes}.txt"
    check_golden(path, said(case, "table", capsys))


@EACH
def test_manifests(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """One file for each plan; nothing is rendered for what is refused or waits."""
    path = HERE / "manifests" / f"{case.model}-on-{case.nodes}.yaml"
    text = said(case, "yaml", capsys)
    if case.code:
        assert text == "\n"
    else:
        check_golden(path, text)


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c.code], ids=lambda case: f"{case.model}-on-{case.nodes}"
)
def test_every_argument_has_a_reason(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the command, those of the pods of a group included, and none beside them."""
    manifests = list(yaml.safe_load_all(said(case, "yaml", capsys)))
    (plan,) = [m["data"]["plan"] for m in manifests if m["kind"] == "ControllerRevision"]
    ranks = plan["group"]["rankArguments"] if "group" in plan else []
    words = [*plan["argv"][2:], *(word for rank in ranks for word in rank)]
    options = dict.fromkeys(word.partition("=")[0] for word in words)

    told = json.loads(said(case, "json", capsys))["arguments"]

    assert list(told) == list(options)
    assert all(why and len(why) < 160 for why in told.values()), told


def test_no_golden_file_is_an_orphan() -> None:
    plans = {f"{case.model}-on-{case.nodes}" for case in CASES}
    accepted = {f"{case.model}-on-{case.nodes}" for case in CASES if not case.code}

    assert {path.stem for path in (HERE / "plan").glob("*")} == plans
    assert {path.stem for path in (HERE / "manifests").glob("*")} == accepted
