"""Every instruction of the CUDA Containerfile, executed with a lock cut down to small wheels.

The whole image is 10 GB and is built where it is published; a broken instruction shows up here.
"""

import re
from pathlib import Path
from typing import Final

import pytest
from tests.images.built import build, container, copy_of_repository, inside
from tests.support.onenode import ROOT, CommandError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

REAL: Final = ROOT / "images" / "runtime" / "requirements.lock"
KEPT: Final = (
    "aiohappyeyeballs",
    "aiohttp",
    "aiosignal",
    "attrs",
    "frozenlist",
    "idna",
    "msgspec",
    "multidict",
    "nvidia-cuda-crt",
    "nvidia-cuda-cccl",
    "nvidia-cuda-nvcc",
    "nvidia-cuda-runtime",
    "nvidia-nvvm",
    "prometheus-client",
    "propcache",
    "typing-extensions",
    "yarl",
)
"""What our own code needs, so that its command runs; and the compiler of CUDA (90 MB)."""
IN_PLACE_OF_CUBINS: Final = "packaging==26.3\n"
SITE: Final = "/opt/kindling/lib/python3.11/site-packages"


@pytest.fixture(scope="module")
def small_lock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with lock files of small packages, in the real form: pins, hashes for the first."""
    folder = tmp_path_factory.mktemp("lock")
    entries = re.split(r"\n(?=[a-z0-9])", REAL.read_text())
    kept = [entry for entry in entries if entry.partition("==")[0] in KEPT]
    assert len(kept) == len(KEPT)
    (folder / "requirements.lock").write_text("\n".join(kept) + "\n")
    (folder / "cubin.lock").write_text(IN_PLACE_OF_CUBINS)
    return folder


@pytest.fixture(scope="module")
def reference(small_lock: Path) -> str:
    """The cut-down image; built once, so that a failure of a broken one is the change's."""
    return build("runtime", "--lock", small_lock)


def test_every_instruction_works(reference: str) -> None:
    with container(reference) as name:
        assert inside(name, "id", "-u", "-n").split() == ["kindling"]
        assert inside(name, "kindling-runtime", "version").startswith("kindling-runtime 0.")
        found = inside(
            name,
            "python",
            "-c",
            "import importlib.metadata as m; print(*(each.name for each in m.distributions()))",
        )
        assert sorted(found.replace("_", "-").split()) == sorted([*KEPT, "kindling", "packaging"])
        # What kernels are compiled with at the first start: g++ and Python's headers.
        program = "#include <Python.h>\nint main() { return PY_MAJOR_VERSION - 3; }\n"
        inside(
            name, "sh", "-c", "g++ -xc++ -I/usr/include/python3.11 -o /tmp/a - && /tmp/a",
            given=program,
        )  # fmt: skip
        assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in inside(name, "env")


def test_kernels_can_be_compiled_and_linked(reference: str) -> None:
    """As FlashInfer does at the first start: CUB, the newest architecture, -lcudart."""
    kernel = (
        "#include <cuda_runtime.h>\n#include <cub/cub.cuh>\n"
        "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
        "int devices() { int n = 0; cudaGetDeviceCount(&n); return n; }\n"
    )
    steps = (
        "cat > /tmp/k.cu",
        "$CUDA_HOME/bin/nvcc -arch=sm_100a -Xcompiler -fPIC -c /tmp/k.cu -o /tmp/k.o",
        "g++ -shared /tmp/k.o -o /tmp/k.so -L$CUDA_HOME/lib64 -lcudart",
    )
    with container(reference) as name:
        inside(name, "sh", "-c", " && ".join(steps), given=kernel)


def test_byte_code_is_there_and_checked_against_nothing(reference: str) -> None:
    with container(reference) as name:
        script = (
            f"import pathlib\nfor module in pathlib.Path('{SITE}').rglob('*.py'):\n"
            "    code = module.parent / '__pycache__' / f'{module.stem}.cpython-311.pyc'\n"
            "    if not code.exists() or code.read_bytes()[4:8] != b'\\1\\0\\0\\0': print(module)\n"
        )
        assert inside(name, "python", "-", given=script) == ""


@pytest.mark.parametrize(
    ("instruction", "broken"),
    [
        ("--no-install-recommends g++ ", "--no-install-recommends no-such-package "),
        ("--key UID_MAX=65532", "--kei UID_MAX=65532"),
        ("COPY images/steps/install-wheels ", "COPY images/steps/install-wheel "),
        ("COPY --from=lock requirements.lock ", "COPY --from=lock requirement.lock "),
        ("steps/install-wheels requirements.lock", "steps/install-wheels requirement.lock"),
        ("COPY --from=lock cubin.lock ", "COPY --from=locks cubin.lock "),
        ("steps/install-wheels cubin.lock", "steps/install-wheels cubins.lock"),
        ("COPY images/steps/complete-cuda ", "COPY images/steps/complete "),
        ('complete-cuda "$CUDA_HOME"', 'complete-cuda "$CUDAHOME"'),
        ("COPY images/steps/add-package ", "COPY images/steps/add "),
        ('add-package kindling "$VERSION"', 'add-package kindling/x "$VERSION"'),
        ("ENV NVIDIA_DRIVER_CAPABILITIES=", "ENVI NVIDIA_DRIVER_CAPABILITIES="),
        ("COPY runtime/kindling_runtime ", "COPY runtime/kindling-runtime "),
        ("-m compileall -q", "-m compileal -q"),
        ('ENTRYPOINT ["kindling-runtime"]', "ENTRYPONT kindling-runtime"),
    ],
)
def test_a_broken_instruction_does_not_build(
    reference: str, small_lock: Path, tmp_path: Path, instruction: str, broken: str
) -> None:
    assert reference
    root = copy_of_repository(tmp_path)
    path = root / "images" / "runtime" / "Containerfile"
    text = path.read_text()
    assert text.count(instruction) == 1
    path.write_text(text.replace(instruction, broken))
    with pytest.raises(CommandError, match="images: runtime could not be built: "):
        build("runtime", "--lock", small_lock, root=root)
