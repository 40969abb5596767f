"""The kind provider against the real kind command, as far as that goes without a container.

kind reads its configuration before it asks Docker for anything, so a daemon that is not there
separates the two: what kind refuses here is our mistake. docs/cluster.md says what was not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.support.onenode import COMMAND, CommandError, run

pytestmark = pytest.mark.cluster

PROVIDERS: Final = COMMAND.parent / "provider"
NO_DOCKER: Final = {
    **os.environ,
    "DOCKER_HOST": "unix:///nowhere/docker.sock",
    "KIND_EXPERIMENTAL_PROVIDER": "docker",
}


@pytest.fixture(scope="module")
def kind() -> Path:
    """The kind command, built from its module."""
    return Path(run(COMMAND, "build", "kind", seconds=900).strip()) / "kind"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration as `up` writes it."""
    _in_provider("kind", "write_kind_config", state=tmp_path)
    return tmp_path / "kind.yaml"


def _in_provider(provider: str, command: str, *, state: Path) -> str:
    settings = f"HERE={shlex.quote(str(COMMAND.parent))} NAME=x STATE={shlex.quote(str(state))}"
    settings += " API_PORT=26443 REGISTRY_PORT=25000"
    script = f'set -eu; {settings}; . "$HERE/provider/$0/provider.sh"; {command}'
    return run("bash", "-c", script, provider, seconds=30)


def _create(kind: Path, config: Path) -> str:
    """What kind says; without Docker it must end in an error."""
    command = (kind, "create", "cluster", "--name", "x", "--config", config, "--wait", "5m")
    with pytest.raises(CommandError) as caught:
        run(*command, "--kubeconfig", config.with_name("kubeconfig"), seconds=60, env=NO_DOCKER)
    return str(caught.value)


def test_kind_takes_the_configuration(kind: Path, config: Path) -> None:
    assert "__" not in config.read_text().split("\n", 1)[1]
    said = _create(kind, config)

    assert "docker" in said
    assert "decode config" not in said


def test_kind_would_refuse_a_misspelt_one(kind: Path, config: Path) -> None:
    config.write_text(config.read_text().replace("extraMounts", "extraMount"))

    assert "field extraMount not found in type v1alpha4.Node" in _create(kind, config)


def test_what_the_node_mounts_is_there(config: Path) -> None:
    mounts = re.findall(r'hostPath: "([^"]+)"', config.read_text())

    assert len(mounts) >= 5
    assert all(Path(path).is_dir() for path in mounts)


def test_every_flag_is_one_of_kind(kind: Path) -> None:
    script = "\n".join(path.read_text() for path in (PROVIDERS / "kind").glob("*.sh"))
    calls = re.findall(r'/kind" ((?:\\\n|[^\n])+)', script)

    assert len(calls) >= 4
    for call in calls:
        words = shlex.split(call.replace("\\\n", " ").partition(">&")[0])
        verb = words[:2]
        usage = run(kind, *verb, "--help", seconds=30)
        for flag in (word for word in words if word.startswith("--")):
            assert re.search(rf"{flag}\b", usage), f"kind {' '.join(verb)} has no {flag}"


def test_the_node_image_is_the_one_of_this_kind(kind: Path, tmp_path: Path) -> None:
    image = _in_provider("kind", 'echo "$KIND_NODE_IMAGE"', state=tmp_path).strip()

    assert "@sha256:" in image
    assert image.encode() in kind.read_bytes()


def test_both_providers_have_the_same_functions(tmp_path: Path) -> None:
    listing = "declare -F | sed -n 's/.* provider_/provider_/p'"
    functions = {
        provider: _in_provider(provider, listing, state=tmp_path).split()
        for provider in ("bare", "kind")
    }

    assert len(functions["bare"]) > 15
    assert functions["bare"] == functions["kind"]


def test_docker_without_a_daemon_means_bare() -> None:
    command = [str(COMMAND), "--name", "nobodys", "prerequisites"]
    done = subprocess.run(command, env=NO_DOCKER, capture_output=True, text=True, check=True)

    assert "this machine can run the bare provider" in done.stderr
