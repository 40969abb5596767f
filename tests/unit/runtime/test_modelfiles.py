"""Each way in which a model folder is not whole is told before the engine starts, and whole folders
pass, also those that real repositories have."""

import io
import json
import os
import pickle
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.support.engine.plans import launch_plan

from kindling_runtime.contract import LaunchPlan, Reason
from kindling_runtime.preflight import WEIGHTS_CHECKS, Preflight

FIRST: Final = "model-00001-of-00002.safetensors"
SECOND: Final = "model-00002-of-00002.safetensors"
INDEX: Final = "model.safetensors.index.json"
URI: Final = "pvc://models/tiny"


def plan_for(folder: Path, *tensors: str) -> LaunchPlan:
    plan = launch_plan(folder, argv=(sys.executable, "-V"))
    return msgspec.structs.replace(
        plan, requires=msgspec.structs.replace(plan.requires, tensors=tensors)
    )


def problem_of(folder: Path, *tensors: str) -> str:
    """What is said of the weights, "" for nothing; fails the test where it takes for ever."""
    found: list[str] = []

    def look() -> None:
        chapter = ((Reason.WEIGHTS_INCOMPLETE, WEIGHTS_CHECKS),)
        failed = Preflight(plan_for(folder, *tensors), chapter).first_problem()
        found.append("" if failed is None else failed.problem)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(60)
    assert found, "the checks hang"
    return found[0]


def header_of(**places: tuple[str, list[int], list[int]]) -> bytes:
    told = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        for name, (dtype, shape, offsets) in places.items()
    }
    text = json.dumps(told).encode()
    return len(text).to_bytes(8, "little") + text


def tensors(*names: str, size: int = 8) -> bytes:
    """A safetensors file of bytes."""
    places = {
        name: ("U8", [size], [size * number, size * (number + 1)])
        for number, name in enumerate(names)
    }
    return header_of(**places) + bytes(size * len(names))


def index(weight_map: dict[str, Any], **metadata: Any) -> str:
    return json.dumps({"metadata": metadata, "weight_map": weight_map})


def archive(size: int = 90_000) -> bytes:
    """As torch.save writes it."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))
        file.writestr("archive/data/0", os.urandom(size))
    return written.getvalue()


def laid(folder: Path, files: dict[str, bytes | str]) -> Path:
    (folder / "config.json").write_text("{}")
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


BOTH: Final = {"a": FIRST, "b": SECOND}
BROKEN: Final[dict[str, tuple[dict[str, bytes | str], str]]] = {
    "a numbered file without an index": (
        {FIRST: tensors("a")},
        "has 1 of 2 files and lacks model-00002-of-00002.safetensors;",
    ),
    "a numbered GGUF": (
        {"m-00001-of-00003.gguf": b"", "m-00003-of-00003.gguf": b""},
        "has 2 of 3 files and lacks m-00002-of-00003.gguf;",
    ),
    "a numbered file of torch": (
        {"pytorch_model-00002-of-00002.bin": archive()},
        "has 1 of 2 files and lacks pytorch_model-00001-of-00002.bin;",
    ),
    "one file twice": (
        {FIRST: tensors("a"), SECOND: tensors("a"), INDEX: index(BOTH)},
        f"has 1 of the 2 tensors that {INDEX} names, such as b;",
    ),
    "a total that is not there": (
        {"m.safetensors": tensors("a"), INDEX: index({"a": "m.safetensors"}, total_size=90)},
        f"the tensors that {INDEX} names have 8 bytes and it says 90;",
    ),
    "an index of numbers": (
        {"m.safetensors": tensors("a"), INDEX: index({"a": 1, "b": "gone.safetensors"})},
        f"{INDEX} in the weights folder",
    ),
    "an index without end": (
        {"m.safetensors": tensors("a"), INDEX: "[" * 100_000},
        f"{INDEX} in the weights folder",
    ),
    "an index with depth in its rest": (
        {"m.safetensors": tensors("a"), INDEX: '{"weight_map": {}, "metadata": ' + "[" * 100_000},
        f"{INDEX} in the weights folder",
    ),
    "an index of a name that no file has": (
        {"m.safetensors": tensors("a"), INDEX: index({"a": "x" * 1_000_000})},
        f"lacks 1 of the 1 files that {INDEX} names, such as xxx",
    ),
    "half a pair in a name": (
        {"m.safetensors": tensors("a"), INDEX: index({"a": "\ud800.safetensors"})},
        f"{INDEX} in the weights folder",
    ),
    "a shape that contradicts its place": (
        {"m.safetensors": header_of(a=("F32", [1_000_000], [0, 4])) + bytes(4)},
        "gives its tensor a 4 bytes and its shape needs 4000000;",
    ),
    "a tensor over another": (
        {"m.safetensors": header_of(a=("U8", [4], [0, 4]), b=("U8", [4], [2, 6])) + bytes(6)},
        "has its tensor b at byte 2 and the one before ends at 4;",
    ),
    "places below zero": (
        {"m.safetensors": header_of(a=("U8", [4], [-8, -4])) + bytes(6)},
        "has no header of its tensors;",
    ),
    "no tensor at all": (
        {"m.safetensors": header_of()},
        "m.safetensors in the weights folder holds no tensor;",
    ),
    "an archive of torch, cut": (
        {"pytorch_model.bin": archive()[:45_000]},
        "pytorch_model.bin in the weights folder has 45000 bytes and is no whole file of torch",
    ),
    "an archive of torch, its last byte": (
        {"pytorch_model.bin": archive(0)[:-1]},
        "and is no whole file of torch.save;",
    ),
    "an empty file of torch": ({"pytorch_model.bin": b""}, "has 0 bytes and is no whole file"),
    "a pointer of LFS": (
        {"pytorch_model.bin": "version https://git-lfs.github.com/spec/v1"},
        "and is no whole file of torch.save;",
    ),
    "half a tokenizer.json": (
        {"m.safetensors": tensors("a"), "tokenizer.json": '{"version": "1.0", "tr'},
        "tokenizer.json in the weights folder",
    ),
}


@pytest.mark.parametrize(("files", "words"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_whole_is_told(
    files: dict[str, bytes | str], words: str, tmp_path: Path
) -> None:
    said = problem_of(laid(tmp_path, files), "*.safetensors", "*.bin", "*.gguf")

    assert words in said
    assert said.endswith(f"copy it again to {URI}")
    assert len(said) < 1000
    assert said.isprintable()


WHOLE: Final[dict[str, dict[str, bytes | str]]] = {
    "an index and its files": {
        FIRST: tensors("a"),
        SECOND: tensors("b"),
        INDEX: index(BOTH, total_size=16),
    },
    "numbers that the index knows better": {
        "model-00001-of-000163.safetensors": tensors("a"),
        INDEX: index({"a": "model-00001-of-000163.safetensors"}),
    },
    "numbers from zero": {
        "m-00000-of-00002.safetensors": tensors("a"),
        "m-00001-of-00002.safetensors": tensors("b"),
    },
    "a total that counts a shared tensor twice, and no metadata": {
        "m.safetensors": tensors("a"),
        INDEX: index({"a": "m.safetensors"}, total_size=16),
        "consolidated.safetensors.index.json": json.dumps({"weight_map": {"a": "m.safetensors"}}),
    },
    "a tensor in another file than the index says": {
        FIRST: tensors("a", "b"),
        SECOND: tensors("c"),
        INDEX: index(BOTH | {"c": SECOND}),
    },
    "types of four bits, of none, and unknown ones": {
        "m.safetensors": header_of(
            a=("F4", [3, 2], [0, 3]), b=("F32", [0], [3, 3]), c=("F2", [9], [3, 4])
        )
        + bytes(4),
    },
    "leftovers of torch beside safetensors": {
        "m.safetensors": tensors("a"),
        "pytorch_model.bin": b"",
        "pytorch_model-00001-of-00009.bin": b"",
    },
    "an archive of torch": {"pytorch_model.bin": archive()},
    "a pickle of torch": {"pytorch_model.bin": pickle.dumps({}, protocol=2)},
    "JSON as Python writes it": {
        "m.safetensors": tensors("a"),
        "generation_config.json": '{"temperature": NaN}',
        "tokenizer_config.json": '\ufeff{"model_max_length": 1000000000000000019884624838656}',
    },
}


@pytest.mark.parametrize("files", WHOLE.values(), ids=WHOLE)
def test_what_is_whole_passes(files: dict[str, bytes | str], tmp_path: Path) -> None:
    assert problem_of(laid(tmp_path, files), "*.safetensors", "*.bin") == ""


@pytest.mark.parametrize("name", [INDEX, "m.safetensors", "tokenizer.json", "a.gguf"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "folder"])
def test_what_is_no_file_is_not_waited_for(
    name: str, make: Callable[[Path], object], tmp_path: Path
) -> None:
    laid(tmp_path, {"n.safetensors": tensors("a")})
    make(tmp_path / name)

    assert problem_of(tmp_path) == (
        f"{tmp_path}/{name} cannot be read (it is no regular file); see the volume of {URI}"
    )


def test_every_check_is_told_by_name_with_how_it_ended(tmp_path: Path) -> None:
    checks = Preflight(
        plan_for(laid(tmp_path, {FIRST: b""})), ((Reason.WEIGHTS_INCOMPLETE, WEIGHTS_CHECKS),)
    )

    checks.first_problem()

    failed, passed, rest = checks.summary.split("; ")
    assert failed == "failed: numbered_files_are_all_there"
    assert passed.startswith("ok: weights_folder_exists, ")
    assert rest.startswith("not made: tensor_files_are_whole, ")
    assert len(checks.summary.split(", ")) == len(WEIGHTS_CHECKS) - 2


def test_names_that_move_a_terminal_are_told_without_it(tmp_path: Path) -> None:
    laid(tmp_path, {"a\n\x1b[31mb.safetensors": bytes(20)})
    assert problem_of(tmp_path).startswith("a [31mb.safetensors in the weights folder has no")

    named = {"a": "\x1b]0;owned\x07\nWedged: fake\n.safetensors"}
    laid(tmp_path, {"m.safetensors": tensors("a"), INDEX: index(named)})
    assert "such as ]0;owned Wedged: fake .safetensors; copy" in problem_of(tmp_path)


def test_files_of_which_a_check_makes_no_sense_are_refused(tmp_path: Path) -> None:
    def broken(_: LaunchPlan) -> str | None:
        raise KeyError("tensors\x1b[2J")

    found = Preflight(
        plan_for(laid(tmp_path, {})), ((Reason.WEIGHTS_INCOMPLETE, (broken,)),)
    ).first_problem()

    assert found is not None
    assert found.reason is Reason.WEIGHTS_INCOMPLETE
    assert found.problem.startswith(f"broken cannot make sense of the files in {tmp_path} (KeyErr")
    assert found.problem.endswith(f"; copy them again to {URI}")
    assert found.problem.isprintable()
