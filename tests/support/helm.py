"""Both helms that people use, built from pinned modules, and the chart as they render it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.install import CHART, NAMESPACE, RELEASE
from tests.support.kube import Kube
from tests.support.onenode import COMMAND, UP_SECONDS, run

Manifest = dict[str, Any]

REGISTRY: Final = "--set=images.registry=registry.example.com"
"""The one value that has no default."""

KUBERNETES: Final = "v1.37.2"
"""What `helm template` takes for the cluster's version unless it is told another one."""


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm program; `major` is 3 or 4."""

    major: int
    program: Path

    def __str__(self) -> str:
        return f"helm {self.major}"

    def call(self, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        """Run it without a cluster and without the caller's helm settings."""
        ours = {name: text for name, text in os.environ.items() if not name.startswith("HELM_")}
        return subprocess.run(
            [self.program, *arguments],
            env={**ours, "KUBECONFIG": os.devnull},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def on(self, kube: Kube, *arguments: str, seconds: float = 240) -> str:
        """What it prints when run against a cluster in the release's namespace."""
        return run(
            self.program,
            *arguments,
            f"--namespace={NAMESPACE}",
            seconds=seconds,
            env=kube.environment,
        )

    def template(self, *arguments: str, release: str = RELEASE) -> subprocess.CompletedProcess[str]:
        """`helm template` of the chart; later arguments win over the ones given here."""
        ours = (f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}", REGISTRY)
        return self.call("template", release, str(CHART), *ours, *arguments)

    def render(self, *arguments: str) -> str:
        """`helm template` of the chart as the README installs it, as text."""
        done = self.template(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manifests(self, *arguments: str) -> list[Manifest]:
        """The objects of `render`."""
        return [each for each in yaml.safe_load_all(self.render(*arguments)) if each]

    def refusal(self, *arguments: str) -> str:
        """What helm prints on stderr when it refuses to render."""
        done = self.template(*arguments)
        assert done.returncode != 0, f"rendered instead of refused: {done.stdout}"
        return done.stderr


@cache
def helm(major: int) -> Helm:
    """helm 3 or helm 4; built when first asked for, which takes minutes without a cache."""
    name = {3: "helm3", 4: "helm"}[major]
    folder = run(COMMAND, "build", name, seconds=UP_SECONDS).split()[-1]
    return Helm(major, Path(folder) / name)


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """The manifests of one kind."""
    return [each for each in manifests if each["kind"] == kind]


def only(manifests: list[Manifest], kind: str) -> Manifest:
    """The one manifest of a kind; fails if there are none or more."""
    found = of_kind(manifests, kind)
    assert len(found) == 1, f"{len(found)} {kind} in the chart"
    return found[0]
