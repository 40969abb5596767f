"""A folder without tensors, and GGUF files that broke off, are told before anything is loaded."""

import struct
import sys
from pathlib import Path

import msgspec
import pytest
from tests.support.engine.plans import launch_plan

from kindling_runtime import gguf, modelfiles
from kindling_runtime.contract import LaunchPlan, Reason
from kindling_runtime.preflight import Preflight


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def header(
    *,
    alignment: int = 64,
    offsets: tuple[int, ...] = (0, 640),
    kind: int = 40,
    shape: tuple[int, ...] = (64, 4),
    parts: int = 1,
) -> bytes:
    """A GGUF header with values of each kind, and a tensor at each offset."""
    entries = [
        text("general.alignment") + struct.pack("<II", 4, alignment),
        text("split.count") + struct.pack("<IH", 2, parts),
        text("name") + struct.pack("<I", 8) + text("flint"),
        text("big") + struct.pack("<IQ", 10, 1),
        text("words") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("scores") + struct.pack("<IIQ", 9, 6, 3) + bytes(12),
    ]
    tensors = [
        text(f"blk.{number}.weight")
        + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        for number, offset in enumerate(offsets)
    ]
    counts = struct.pack("<IQQ", 3, len(tensors), len(entries))
    return b"".join([b"GGUF", counts, *entries, *tensors])


def plan_for(folder: Path, *tensors: str) -> LaunchPlan:
    (folder / "config.json").write_text("{}")
    plan = launch_plan(folder, argv=(sys.executable, "-V"))
    return msgspec.structs.replace(
        plan, requires=msgspec.structs.replace(plan.requires, tensors=tensors)
    )


BEGINS = -(-len(header()) // 64) * 64


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [(0, (1000,), 4000), (30, (4, 4), 32), (40, (64, 3), 108), (14, (256,), 210), (999, (4, 4), 1)],
    ids=["F32", "BF16", "NVFP4", "Q6_K", "unknown"],
)
def test_the_size_is_that_to_the_end_of_the_last_tensor(
    kind: int, shape: tuple[int, ...], size: int, tmp_path: Path
) -> None:
    (file := tmp_path / "a.gguf").write_bytes(header(kind=kind, shape=shape))
    begins = -(-file.stat().st_size // 64) * 64

    assert gguf.header(file) == gguf.Header(begins + 640 + size, parts=1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        b"GGML" + header()[4:],
        header()[:-3],
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0),
        b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
    ],
    ids=["empty", "magic alone", "another magic", "cut off", "no count", "another version"],
)
def test_what_is_no_header_has_no_size(content: bytes, tmp_path: Path) -> None:
    (file := tmp_path / "a.gguf").write_bytes(content)

    assert gguf.header(file) is None
    assert "a.gguf in the weights folder has no header of its tensors; copy it again to " in str(
        modelfiles.gguf_files_are_whole(plan_for(tmp_path))
    )


@pytest.mark.parametrize("has", [len(header()), BEGINS + 640, BEGINS + 641, BEGINS + 783])
def test_a_file_that_broke_off_is_told_with_both_sizes(has: int, tmp_path: Path) -> None:
    (file := tmp_path / "a.gguf").write_bytes(header().ljust(has, b"x"))

    assert modelfiles.gguf_files_are_whole(plan_for(tmp_path)) == (
        f"a.gguf in the weights folder has {has} bytes and its tensors need {BEGINS + 784};"
        " copy it again to pvc://models/tiny"
    )
    file.write_bytes(header().ljust(BEGINS + 784, b"x"))
    assert modelfiles.gguf_files_are_whole(plan_for(tmp_path)) is None


def test_a_part_under_a_name_of_its_own_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(header(parts=3).ljust(BEGINS + 784, b"x"))

    assert modelfiles.gguf_files_are_whole(plan_for(tmp_path)) == (
        "a.gguf in the weights folder is one of 3 files and only 1 are there; copy it again to"
        " pvc://models/tiny"
    )


def test_a_folder_without_tensors_is_told(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, "*.safetensors", "*.gguf")

    assert modelfiles.some_tensors_are_there(plan) == (
        f"the weights folder {tmp_path} has no file *.safetensors or *.gguf; "
        "make pvc://models/tiny name the folder that holds the model's weights"
    )
    (tmp_path / "a.gguf").write_bytes(header())
    assert modelfiles.some_tensors_are_there(plan) is None
    assert modelfiles.some_tensors_are_there(plan_for(tmp_path)) is None


def test_an_index_of_torch_files_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "1.bin"}}')

    said = str(modelfiles.shards_of_the_index_are_there(plan_for(tmp_path)))
    assert said.startswith(f"the weights folder {tmp_path} lacks 1 of the 1 files that pytorch_")


def test_what_is_wrong_in_several_places_is_told_together(tmp_path: Path) -> None:
    checks = (
        (Reason.WEIGHTS_INCOMPLETE, (lambda _: "the folder is empty; fill it",)),
        (Reason.PREFLIGHT_FAILED, (lambda _: None,)),
        (Reason.PREFLIGHT_FAILED, (lambda _: "no GPU is there; add one",)),
    )
    for _, (check,) in checks:
        check.__name__ = "check"

    found = Preflight(plan_for(tmp_path), checks).first_problem()

    assert found is not None
    assert found.reason is Reason.WEIGHTS_INCOMPLETE
    assert found.problem == "the folder is empty; fill it; besides, no GPU is there; add one"
