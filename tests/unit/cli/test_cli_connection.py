"""A cluster that cannot be reached, or is not named: one sentence each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kindling_operator.cli import main

HUGE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "gpu-0",
        "labels": {
            "nvidia.com/gpu.product": "NVIDIA-H200",
            "nvidia.com/gpu.memory": "143771",
            "nvidia.com/gpu.compute.major": "9",
            "nvidia.com/gpu.compute.minor": "0",
        },
    },
    "status": {
        "nodeInfo": {"architecture": "amd64"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "192", "memory": "2Ti", "nvidia.com/gpu": "1"},
    },
}
LAPTOP = {
    **HUGE,
    "metadata": {"name": "laptop", "labels": {}},
    "status": {**HUGE["status"], "allocatable": {"cpu": "4", "memory": "16Gi"}},  # type: ignore[dict-item]
}
HOLDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "other", "name": "training", "uid": "1"},
    "spec": {
        "nodeName": "gpu-0",
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
    "status": {"phase": "Running"},
}


def model(spec: Mapping[str, Any], name: str = "tiny", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kindling.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name, **metadata},
        "spec": dict(spec),
    }


class Files:
    """Files of a working folder, and `kindling plan` run on them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, *objects: Any, as_json: bool = False) -> str:
        path = self._folder / name
        path.write_text(json.dumps(objects[0]) if as_json else yaml.safe_dump_all(objects))
        return str(path)

    def plan(self, *models: Any, nodes: Any = (HUGE, LAPTOP), more: tuple[str, ...] = ()) -> int:
        models_file = self.write("models.yaml", *models)
        nodes_file = self.write("nodes.yaml", *nodes)
        return main(["plan", "-f", models_file, "--nodes", nodes_file, *more])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("name", ["tiny", "im/", "pod/tiny", "/tiny"])
def test_replan_wants_a_model(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replan", name, "-n", "ml"]) == 2
    assert capsys.readouterr().err == f"kindling: {name!r} names no model; write im/NAME\n"


def test_replan_says_that_replicas_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replan", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "A rollout replaces its replicas, also where the plan stays as it is" in text


CLUSTER_COMMANDS = (
    ["replan", "im/tiny", "-n", "ml"],
    ["explain", "im/tiny", "-n", "ml"],
    ["doctor"],
)


@pytest.mark.parametrize("command", CLUSTER_COMMANDS, ids=lambda command: command[0])
def test_without_a_kubeconfig(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    assert main(command) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"kindling: the kubeconfig cannot be used (there is no file {tmp_path}/none): set"
        " KUBECONFIG or give --kubeconfig\n",
    )


_CLUSTERS = "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', %s}}]\n"
_BROKEN_CONFIGS = {
    "no YAML": "a: [",
    "nothing": "",
    "a list": "[]",
    "a number of contexts": "contexts: 3",
    "contexts without names": "{current-context: a, contexts: [{context: {}}]}",
    "certificates that are none": "current-context: a\nusers: [{name: a, user: {}}]\n"
    "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
    + _CLUSTERS
    % "certificate-authority-data: '!'",
}


@pytest.mark.parametrize("text", _BROKEN_CONFIGS.values(), ids=_BROKEN_CONFIGS)
def test_a_kubeconfig_that_is_none(
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))

    assert main(["replan", "im/x"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("kindling: the kubeconfig cannot be used (")


def test_a_context_that_is_not_there(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"kind": "Config", "contexts": [], "clusters": [], "users": [], "current-context": ""}
    file = files.write("config.yaml", config)
    monkeypatch.delenv("KUBECONFIG", raising=False)

    assert main(["doctor", "--kubeconfig", file, "--context", "nowhere"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("kindling: the kubeconfig cannot be used (")
    assert err.endswith("): correct it, or give another --context\n")
