"""What `kindling plan` makes of files that are odd: one sentence, never a traceback."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.builders import catalog_spec
from tests.support.planning import node

from kindling_operator.cli import main


def model(name: str, **changes: Any) -> dict[str, Any]:
    spec = catalog_spec("flint", **changes)
    metadata = {"name": name, "namespace": "ml"}
    kind = {"apiVersion": "kindling.dev/v1alpha1", "kind": "InferenceModel"}
    return {**kind, "metadata": metadata, "spec": spec}


def planned(folder: Path, models: list[Any], *nodes: Any) -> int:
    (folder / "models.yaml").write_text(yaml.safe_dump_all(models))
    (folder / "nodes.yaml").write_text(yaml.safe_dump_all(nodes or (node("gpu-0", gpus=1),)))
    return main(["plan", "-f", str(folder / "models.yaml"), "--nodes", str(folder / "nodes.yaml")])


@pytest.mark.parametrize(
    ("models", "complaint"),
    [
        ([{**model("a"), "metadata": "x"}], "metadata of an InferenceModel is no mapping"),
        ([model("a"), model("b"), model("a")], "has InferenceModel ml/a twice: remove one"),
        (
            [{**model("a"), "apiVersion": "kindling.dev/v9"}],
            "InferenceModel has apiVersion kindling.dev/v9: write kindling.dev/v1alpha1",
        ),
    ],
)
def test_models_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: list[Any], complaint: str
) -> None:
    assert planned(tmp_path, models) == 2

    said = capsys.readouterr().err
    assert complaint in said
    assert len(said.splitlines()) == 1


def test_a_driver_that_is_no_version(tmp_path: Path) -> None:
    assert planned(tmp_path, [model("a")], node("gpu-0", cuda_driver_major="5" * 5000)) == 0


@pytest.mark.parametrize(
    ("nodes", "told"),
    [({"kind": "Pod"}, True), ({"kind": "List", "items": []}, False)],
    ids=["no node", "an empty list"],
)
def test_a_file_without_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: Any, told: bool
) -> None:
    assert planned(tmp_path, [model("a")], nodes) == 1

    assert ("has no Node" in capsys.readouterr().err) is told


def test_a_priority_class_counts_where_a_file_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One GPU: by name the first would get it, by its class the last does."""
    models: list[Any] = [model("a"), model("z", placement={"priorityClassName": "urgent"})]
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}

    planned(tmp_path, models)
    without = capsys.readouterr()
    planned(tmp_path, [*models, {**urgent, "metadata": {"name": "urgent"}}])
    found = capsys.readouterr()

    assert "ml/z: the files have no PriorityClass urgent" in without.err
    assert "ml/z: waits" in without.out
    assert found.err == ""
    assert "ml/a: waits" in found.out


def test_the_summary_names_those_that_have_the_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(tmp_path, [model(f"m{number}") for number in range(9)], node("gpu-0", gpus=5))

    waits = [line for line in capsys.readouterr().out.splitlines() if "waits for" in line]
    assert len(waits) == 4
    assert {line.partition("waits for ")[2] for line in waits} >= {
        "ml/m0 or ml/m1 or ml/m2 or 2 more"
    }
