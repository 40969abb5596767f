"""What the catalog says of a vLLM is what that vLLM says of itself."""

from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.images.built import build, container, inside
from tests.support.onenode import ROOT

from kindling_operator.catalog import runtimes
from kindling_operator.model.runtime import EngineFacts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SCRIPT: Final[Path] = ROOT / "images" / "describe_vllm.py"


def test_the_vllm_of_the_cpu_image_is_described_as_it_is() -> None:
    with container(build("runtime-cpu")) as name:
        printed = inside(name, "python", "-c", SCRIPT.read_text())

    described = msgspec.json.decode(printed, type=EngineFacts)

    assert described == runtimes.load("cpu").engine
