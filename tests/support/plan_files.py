"""Files as kubectl prints them, and `kindling plan` run on them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
