"""`kindling plan --runtimes`: images of one's own, by what somebody said of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.support.builders import catalog_spec, tiny_spec
from tests.support.planning import Object, kindling_plan, node

from kindling_operator.cli import main

DIGEST: Final = f"sha256:{1:064x}"
LAPTOP: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "laptop", "labels": {"kubernetes.io/arch": "amd64"}},
    "status": {
        "allocatable": {"cpu": "2", "memory": "24Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
OURS: Final[Mapping[str, Any]] = {
    "name": "ours",
    "device": "CPU",
    "vllm": "0.32.0",
    "digests": [DIGEST],
    "cpuArchitectures": ["amd64"],
    "inFlight": 1,
    "blockTokens": 64,
    "batchedTokens": 2048,
    "sources": {},
}
SPEC: Final = tiny_spec(runtime={"image": f"mirror.test/own@{DIGEST}"})


def test_an_image_that_nobody_described_is_told_of(tmp_path: Path) -> None:
    said = kindling_plan(tmp_path, SPEC, LAPTOP)

    assert (said.code, said.reason) == (0, "Unverified")
    assert said.message == (
        "CPU, BF16, 4096 ctx: accepted, but unverified: nobody has described"
        " spec.runtime.image by its digest, so it is judged as this release's own image with vLLM"
        " 0.32.0."
    )


def test_an_image_is_judged_by_its_description(tmp_path: Path) -> None:
    own = kindling_plan(tmp_path, SPEC, LAPTOP)

    said = kindling_plan(tmp_path, SPEC, LAPTOP, runtimes=[OURS])

    assert (said.code, said.reason) == (0, "SpecAccepted")
    # Blocks of 64 tokens instead of 128.
    assert said.plan["kv"]["blocks"] == 2 * own.plan["kv"]["blocks"]


# The needs of Flint on a GPU, and nothing of the model itself.
GPU_IMAGE: Final[Mapping[str, Any]] = {
    **OURS,
    "device": "GPU",
    "vllm": "0.33.0",
    "packages": ["flashinfer-cubin", "gguf", "pydantic-extra-types"],
}
FLINT: Final = catalog_spec("flint", runtime={"image": f"mirror.test/own@{DIGEST}"})


def test_a_description_without_the_model_leaves_its_kernels(tmp_path: Path) -> None:
    """Without them Flint's attention sinks would be left out (trap T5)."""
    said = kindling_plan(tmp_path, FLINT, node("gpu-0"), runtimes=[GPU_IMAGE])

    assert (said.code, said.reason) == (0, "Unverified")
    assert "runtime image ours says nothing of FlintForCausalLM" in said.message
    assert {each["backend"] for each in said.status["attentionBackends"]} == {"FLASHINFER"}
    assert "FLASHINFER" in said.option("--attention-config")


@pytest.mark.parametrize(
    ("product", "packages", "complaint"),
    [
        ("NVIDIA-L40S", GPU_IMAGE["packages"], "no attention backend for this GPU has both sinks"),
        ("NVIDIA-H200", [], "ours (vLLM 0.33.0) has no flashinfer-cubin"),
    ],
)
def test_a_description_without_the_model_takes_no_refusal_back(
    tmp_path: Path, product: str, packages: list[str], complaint: str
) -> None:
    described = {**GPU_IMAGE, "packages": packages}

    said = kindling_plan(tmp_path, FLINT, node("gpu-0", product), runtimes=[described])

    assert (said.code, said.reason) == (1, "BrokenCombination")
    assert complaint in said.message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{name: ours}", "runtimes: Expected `array | null`, got `object`"),
        (yaml.safe_dump([{**OURS, "digests": []}]), "runtime 'ours' has no digests"),
        (yaml.safe_dump([OURS, OURS]), "two runtimes are called 'ours'"),
    ],
)
def test_a_file_that_describes_no_image_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    path = tmp_path / "runtimes.yaml"
    path.write_text(text)

    assert main(["plan", "-f", "x", "--nodes", "y", "--runtimes", str(path)]) == 2
    assert f"{path} describes no runtime images: {complaint}" in capsys.readouterr().err
