"""Modules of the tests inside the CPU image, beside a real vLLM and the tiny model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.images.built import build, container, inside
from tests.support.onenode import ROOT
from tests.support.tinymodel.architectures import Architecture
from tests.support.tinymodel.make_model import make_model

MODEL: Final = "/models/tiny"
"""Where the module finds what `make_tiny` has made."""
ENVIRONMENT: Final = ("HOME=/tmp", "PYTHONPATH=/repo", "PYTHONDONTWRITEBYTECODE=1")


def make_tiny(models: Path) -> None:
    """The tiny model in a folder, for the image's user, who is not the one who runs the tests."""
    make_model(models / "tiny", Architecture.QWEN3)
    for folder in (models, models / "tiny"):
        folder.chmod(0o755)


def told(
    module: str,
    *arguments: str,
    models: Path,
    seconds: int,
    writable: Mapping[Path, str] | None = None,
    prefix: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a module of this folder in a new container; the JSON in the last line that it prints."""
    with container(build("runtime-cpu")) as name:
        said = inside(
            name,
            *("env", *ENVIRONMENT, "python", "-m", f"tests.contract.engine.{module}", *arguments),
            volumes={models: "/models", ROOT / "tests": "/repo/tests"},
            writable=writable,
            prefix=prefix,
            seconds=seconds,
        )
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found
