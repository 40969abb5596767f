"""A pod that cannot run its plan: exit 78 and one sentence, before the engine is started."""

import contextlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.support import memcgroup
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime import contract
from kindling_runtime.contract import Device, ExitCode, Package, Reason
from kindling_runtime.weights import manifest
from kindling_runtime.weights.manifest import Entry, Manifest

REFUSED_WITHIN: Final = 5 + pods.ROOM
GIB: Final = 1 << 30
HEADER: Final = json.dumps({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()


@dataclass(frozen=True, slots=True)
class Broken:
    """A way in which a pod is not as planned, and what is said of it."""

    said: str
    reason: Reason = Reason.PREFLIGHT_FAILED
    damage: Callable[[Path], object] | None = None
    requires: dict[str, Any] | None = None
    prefix: tuple[str, ...] = ()
    memory: int | None = None

    @property
    def needs_root(self) -> bool:
        return self.memory is not None or self.prefix[:1] == ("unshare",)


def weights(said: str, damage: Callable[[Path], object]) -> Broken:
    return Broken(said, Reason.WEIGHTS_INCOMPLETE, damage)


def tensors(content: bytes) -> Callable[[Path], object]:
    return lambda model: (model / "model.safetensors").write_bytes(content)


def published(**differs: Any) -> Callable[[Path], object]:
    """A manifest of the config file that is right but for this."""

    def write(model: Path) -> None:
        config = model / "config.json"
        given: dict[str, Any] = {
            "path": config.name,
            "size": config.stat().st_size,
            "mtime_ns": 0,
            "blake3": "0",
        }
        found = Manifest(uri="hf://org/tiny", revision="", files=(Entry(**(given | differs)),))
        manifest.write(model, found)

    return write


GGUF: Final = b"GGUF" + struct.pack("<IQQQ1sIQIQ", *(3, 1, 0), *(1, b"w", 1, 1 << 20, 0, 0))
"""A header of 2^20 values of F32."""
HOSTILE: Final = json.dumps({"weight_map": {"a": "\x1b]0;owned\x07\nWedged: fake.safetensors"}})
INDEX: Final = json.dumps({"weight_map": {"a": "model.safetensors", "b": "other.safetensors"}})
BROKEN: Final = {
    "no weights folder": weights("does not exist", lambda model: model.rename(f"{model}.gone")),
    "no config.json": weights("has no config.json", lambda m: (m / "config.json").unlink()),
    "half a config.json": weights(
        "config.json in the weights folder", lambda m: (m / "config.json").write_text('{"arch')
    ),
    "truncated safetensors": weights(
        "bytes and its tensors need", tensors(len(HEADER).to_bytes(8, "little") + HEADER + b"1234")
    ),
    "a wrong header of safetensors": weights(
        "model.safetensors in the weights folder has no header", tensors(b"\xff" * 64)
    ),
    "a GGUF file cut in its only tensor": weights(
        "m.gguf in the weights folder has 4096 bytes and its tensors need ",
        lambda m: (m / "m.gguf").write_bytes(GGUF.ljust(4096, b"x")),
    ),
    "a numbered file without the others": weights(
        "has 1 of 2 files and lacks model-00002-of-00002.safetensors",
        lambda m: (m / "model.safetensors").rename(m / "model-00001-of-00002.safetensors"),
    ),
    "a FIFO as index": weights(
        "model.safetensors.index.json cannot be read (it is no regular file)",
        lambda m: os.mkfifo(m / "model.safetensors.index.json"),
    ),
    "names that move a terminal": weights(
        "such as ]0;owned Wedged: fake.safetensors; copy it again",
        lambda m: (m / "model.safetensors.index.json").write_text(HOSTILE),
    ),
    "a missing shard": weights(
        "lacks 1 of the 2 files that model.safetensors.index.json names, such as other.safetensors",
        lambda m: (m / "model.safetensors.index.json").write_text(INDEX),
    ),
    "another checksum than the manifest's": weights("has another checksum", published()),
    "another size than the manifest's": weights("has 39 bytes and came with 9", published(size=9)),
    "a file of the manifest is gone": weights("is gone", published(path="tokenizer.json")),
    "a memory limit below the plan's sum": Broken(
        "the container's memory limit is 1.0 GiB and the plan needs 2.0",
        requires={"memory": 2 * GIB},
        memory=GIB,
    ),
    "/dev/shm smaller than planned": Broken(
        "/dev/shm has 0.5 GiB and the plan needs 1.0",
        requires={"shared_memory": GIB},
        prefix=memcgroup.prepared("mount -t tmpfs -o size=512m tmpfs /dev/shm"),
    ),
    "/dev/shm full": Broken(
        "/dev/shm has 0.5 GiB free of 1.0 and the plan needs 1.0; delete the pod",
        requires={"shared_memory": GIB},
        prefix=memcgroup.prepared(
            "mount -t tmpfs -o size=1g tmpfs /dev/shm; fallocate -l 512m /dev/shm/somebodys"
        ),
    ),
    "too few open files": Broken(
        "the container may open 512 files and an engine needs 1024",
        prefix=("bash", "-ec", 'ulimit -Sn 512; ulimit -Hn 512; exec "$@"', "limited"),
    ),
    "a package of another version": Broken(
        "and the plan is for 0.0.1",
        requires={"packages": (Package(name="msgspec", version="0.0.1"),)},
    ),
    "a package is missing": Broken(
        "the image has no no-such-package",
        requires={"packages": (Package(name="no-such-package"),)},
    ),
    "no GPU": Broken(
        "the pod's GPUs cannot be asked",
        requires={"device": Device(product="NVIDIA-H200", count=8, memory=0)},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_pod_that_cannot_run_its_plan_is_refused(
    name: str, tmp_path: Path, fault: Fault
) -> None:
    broken = BROKEN[name]
    if broken.needs_root and os.getuid() != 0:
        pytest.skip("mounts and cgroups need root")
    fault.row(Kind.POD, name, f"exit 78, `{broken.reason}`, one sentence, no engine started")
    model = pods.weights(tmp_path / "model")
    plan = pods.plan_for(model)
    requires = msgspec.structs.replace(plan.requires, **(broken.requires or {}))
    plan = msgspec.structs.replace(plan, requires=requires)
    if broken.damage is not None:
        broken.damage(model)
    with contextlib.ExitStack() as stack:
        limit = (
            () if broken.memory is None else stack.enter_context(memcgroup.limited(broken.memory))
        )
        fault.begins()
        status, words = await pods.run_to_end(
            contract.encode(plan), tmp_path, prefix=(*broken.prefix, *limit)
        )
        fault.within(REFUSED_WITHIN, f"exit {ExitCode.PREFLIGHT}")

    found = (status, contract.read_last_words(words)[0])
    assert found == (ExitCode.PREFLIGHT, broken.reason), words
    assert broken.said in words
    assert " [checks: failed: " in words
    assert "; ok: " in words
    assert words.isprintable()
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert "standin" not in log
