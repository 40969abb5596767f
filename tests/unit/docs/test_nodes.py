"""The example node files: each is a cluster that the planner understands and decides on."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.support.onenode import ROOT

from kindling_operator.catalog import gpus
from kindling_operator.cli import main
from kindling_operator.model.objects import NodeView
from kindling_operator.observe.nodes import node

FOLDER: Final = ROOT / "docs" / "examples" / "nodes"
MODELS: Final = ROOT / "tests" / "golden" / "models"
CLUSTERS: Final = {
    "eks-p5": (4, 8, {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"}),
    "eks-p6": (2, 8, {"NVIDIA-B200"}),
    "gke-a3": (4, 8, {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"}),
    "gke-a4": (2, 8, {"NVIDIA-B200"}),
    "aks-nd": (4, 8, {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"}),
    "nvl72": (18, 4, {"NVIDIA-GB200"}),
    "lab-2x24gb": (1, 2, {"NVIDIA-GeForce-RTX-4090"}),
    "cpu-laptop": (0, 0, set[str]()),
}
"""By file: nodes with GPUs, GPUs of each, products."""

EACH = pytest.mark.parametrize("name", CLUSTERS)


def path(name: str) -> Path:
    return FOLDER / f"{name}.yaml"


def nodes(name: str) -> list[NodeView]:
    listed = yaml.safe_load(path(name).read_text())
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    return [node(body) for body in listed["items"]]


def test_every_file_is_described_here() -> None:
    assert {each.stem for each in FOLDER.iterdir()} == set(CLUSTERS)


@EACH
def test_a_file_says_all_that_a_plan_asks_of_a_node(name: str) -> None:
    count, each_has, products = CLUSTERS[name]
    found = nodes(name)
    with_gpus = [each for each in found if each.gpus]

    assert all(each.ready and each.cpu_millis and each.memory > 8 << 30 for each in found)
    assert len({each.name for each in found}) == len(found)
    assert [each.gpus for each in with_gpus] == [each_has] * count
    assert {each.gpu_product for each in with_gpus} == products
    assert {int(each.labels["nvidia.com/gpu.count"]) for each in with_gpus} <= {each_has}


@EACH
def test_labels_agree_with_what_is_known_of_the_product(name: str) -> None:
    for each in nodes(name):
        if each.gpus:
            labels = each.labels
            major, minor = (labels[f"nvidia.com/gpu.compute.{part}"] for part in ("major", "minor"))
            facts = gpus.load_all()[each.gpu_product]
            assert f"sm{major}{minor}" == facts.capability


def test_a_rack_is_one_nvlink_domain_of_arm_nodes() -> None:
    rack = nodes("nvl72")
    (clique,) = {each.labels["nvidia.com/gpu.clique"] for each in rack}

    assert sum(each.gpus for each in rack) == 72
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.\d+", clique)
    assert {each.architecture for each in rack} == {"arm64"}


@EACH
def test_a_file_names_the_sources_of_its_facts(name: str) -> None:
    head = [line for line in path(name).read_text().splitlines() if line.startswith("#")]
    sources = head[head.index("# Sources:") + 1 :]
    assert sum(1 for line in sources if re.match(r"#   \S.*: ", line)) >= 2


@EACH
@pytest.mark.parametrize("model", ["inkling", "flint"])
def test_both_models_get_a_decision_on_each(
    name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["plan", "-f", str(MODELS / f"{model}.yaml"), "--nodes", str(path(name))])

    head, *rest = capsys.readouterr().out.splitlines()
    if code:
        assert re.match(rf"ml/{model}: (refused|waits), \w+$", head)
        assert re.search(r"(: |; )[a-z]", " ".join(rest)), "a refusal names the way out"
    else:
        assert re.match(rf"ml/{model}: \d+x NVIDIA-\S+ in ", head)
        assert "  command" in rest
