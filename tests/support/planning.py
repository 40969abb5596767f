"""`kindling plan` as a person types it, on nodes and a model in files; what it says and renders."""

import contextlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.builders import PRODUCTS

from kindling_operator.cli import main

Object = Mapping[str, Any]

MEMORY: Final = "1900Gi"
"""Host memory of a GPU node unless a case says otherwise."""


@dataclass(frozen=True)
class Said:
    """The answer for one model: `message` is the sentence, `manifests` what would be applied."""

    code: int
    reason: str
    message: str
    status: Object
    manifests: Sequence[Object]

    @property
    def plan(self) -> Object:
        """The stored plan."""
        found: Object = self._one("ControllerRevision")["data"]["plan"]
        return found

    @property
    def argv(self) -> Sequence[str]:
        """The engine's command."""
        argv: Sequence[str] = self.plan["argv"]
        return argv

    @property
    def env(self) -> Mapping[str, str]:
        """The engine's variables."""
        env: Mapping[str, str] = self.plan["env"]
        return env

    @property
    def pod(self) -> Object:
        """The pod's spec: of a Deployment, or of the leader of a group."""
        template: Object = self._one("ControllerRevision")["data"]["template"]
        spec: Object = template["spec"]
        return spec

    @property
    def rejected(self) -> Mapping[str, str]:
        """Reason of each rejected option, by its name."""
        return {each["option"]: each["reason"] for each in self.status.get("rejected", ())}

    def option(self, name: str) -> str:
        """The value of an option of the command; "" if it is not there."""
        found = [a.partition("=")[2] for a in self.argv if a.partition("=")[0] == name]
        return found[0] if found else ""

    def _one(self, kind: str) -> Object:
        [found] = [each for each in self.manifests if each["kind"] == kind]
        return found


def node(
    name: str,
    product: str = "NVIDIA-H200",
    *,
    gpus: int = 8,
    memory: str = MEMORY,
    architecture: str = "amd64",
    **labels: str,
) -> Object:
    """A node as the API server shows it; `labels` are of nvidia.com, with _ for . and -."""
    mib, major, minor = PRODUCTS[product]
    further = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": architecture,
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.memory": str(mib),
                "nvidia.com/gpu.compute.major": major,
                "nvidia.com/gpu.compute.minor": minor,
                **further,
            },
        },
        "status": {
            "allocatable": {"cpu": "192", "memory": memory, "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def kindling_plan(
    folder: Path, spec: Object, *nodes: Object, runtimes: Iterable[Object] = ()
) -> Said:
    """Run the command for a model called `model` on these nodes."""
    model = {
        "apiVersion": "kindling.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "model", "namespace": "ml"},
        "spec": dict(spec),
    }
    arguments = ["plan", "-f", _file(folder / "model.yaml", model)]
    arguments += ["--nodes", _file(folder / "nodes.yaml", *(nodes or (node("gpu-0"),)))]
    described = list(runtimes)
    if described:
        path = folder / "runtimes.yaml"
        path.write_text(yaml.safe_dump(described))
        arguments += ["--runtimes", str(path)]
    code, told = _run([*arguments, "-o", "json"])
    answer = json.loads(told)
    _, text = _run([*arguments, "-o", "yaml"])
    return Said(
        code=code,
        reason=answer["reason"],
        message=answer["message"],
        status=answer["plan"] or {},
        manifests=[each for each in yaml.safe_load_all(text) if each],
    )


def _file(path: Path, *objects: Object) -> str:
    path.write_text(yaml.safe_dump_all(dict(each) for each in objects))
    return str(path)


def _run(arguments: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(arguments)
    return code, out.getvalue()
