"""GPUs as a recorded NVML tells of them, against plans."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from tests.support.faultpage import Fault, Kind, Under

from kindling_runtime.contract import Device
from kindling_runtime.gpus import Found, Gpu, UnseenError, look, problem

# As nvidia-ml-py answered on a host with one NVIDIA H200 (driver 580).
H200 = Gpu(product="NVIDIA H200", memory=150_754_820_096, used=650 << 20, capability="9.0")
FOUND = Found("580.95.05", (H200,))
WANTED = Device(
    product="NVIDIA-H200", count=1, memory=143_771 << 20, capability="9.0", driver="580.65.06"
)


def recorded(*gpus: Gpu, driver: str = "580.95.05", fails: str = "") -> Any:
    """nvidia-ml-py's module over a recording."""

    class NVMLError(Exception):
        pass

    def start() -> None:
        if fails:
            raise NVMLError(fails)

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=driver.encode,
        nvmlDeviceGetCount=lambda: len(gpus),
        nvmlDeviceGetHandleByIndex=lambda index: gpus[index],
        nvmlDeviceGetName=lambda gpu: gpu.product,
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(total=gpu.memory, used=gpu.used),
        nvmlDeviceGetCudaComputeCapability=lambda gpu: tuple(map(int, gpu.capability.split("."))),
    )


def test_what_nvml_tells_is_read() -> None:
    assert look(recorded(H200)) == FOUND


def test_the_planned_gpu_passes() -> None:
    assert problem(FOUND, WANTED) is None


PROBLEMS = {
    "too few": (
        Found("580.95.05", ()),
        WANTED,
        "the container sees 0 GPUs and the plan is for 1; see that the device plugin gives the pod"
        " what it asks for, and that NVIDIA_VISIBLE_DEVICES is not set",
    ),
    "too many": (
        Found("580.95.05", (H200, H200)),
        WANTED,
        "the container sees 2 GPUs and the plan is for 1; see that the device plugin gives the pod"
        " what it asks for, and that NVIDIA_VISIBLE_DEVICES is not set",
    ),
    "another product": (
        Found("580.95.05", (replace(H200, product="NVIDIA H100 80GB HBM3"),)),
        WANTED,
        "GPU 0 is NVIDIA-H100-80GB-HBM3 and the plan is for NVIDIA-H200; correct the node's label"
        " nvidia.com/gpu.product",
    ),
    "less memory": (
        Found("580.95.05", (H200, replace(H200, memory=143_000 << 20))),
        structs.replace(WANTED, count=2),
        "GPU 1 has 143000 MiB and the plan is for 143771; correct the node's label"
        " nvidia.com/gpu.memory",
    ),
    "another capability": (
        FOUND,
        structs.replace(WANTED, capability="10.0"),
        "GPU 0 has compute capability 9.0 and the plan is for 10.0; correct the node's label"
        " nvidia.com/gpu.compute.major",
    ),
    "an old driver": (
        replace(FOUND, driver="535.104.05"),
        WANTED,
        "the NVIDIA driver is 535.104.05 and the image needs 580.65.06 or later; upgrade the driver"
        " of the node",
    ),
    "memory that somebody has": (
        Found("580.95.05", (replace(H200, used=20_000 << 20),)),
        WANTED,
        "20000 of 143771 MiB of GPU 0 (NVIDIA-H200) are in use by others; see nvidia-smi on the"
        " node for the process, and that the GPU is not shared",
    ),
}


@pytest.mark.parametrize(("found", "wanted", "words"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_difference_is_one_sentence(
    found: Found, wanted: Device, words: str, request: pytest.FixtureRequest, fault: Fault
) -> None:
    name = request.node.callspec.id
    fault.row(Kind.POD, f"GPUs: {name}", "one sentence, exit 78", under=Under.ALONE)
    fault.begins()
    assert problem(found, wanted) == words
    fault.within(1, "told")


def test_more_memory_and_a_driver_of_a_later_branch_are_fine() -> None:
    larger = Found("590.1", (replace(H200, memory=H200.memory + (1 << 30)),))

    assert problem(larger, WANTED) is None


def test_a_driver_that_does_not_answer_is_told_in_its_words() -> None:
    with pytest.raises(UnseenError, match="NVML says Driver Not Loaded"):
        look(recorded(fails="Driver Not Loaded"))
