"""What the container must be: each check with its sentence, and that all of them are told."""

import datetime
import json
import os
import resource
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind, Under

from kindling_runtime import gpus, modelfiles, podfit, starving
from kindling_runtime.contract import Device, LaunchPlan, Package, Reason, Requires
from kindling_runtime.preflight import Preflight
from kindling_runtime.weights import digests, manifest
from kindling_runtime.weights.manifest import Entry, Manifest

DEVICE = Device(product="NVIDIA-H200", count=1, memory=0)


@pytest.fixture
def plan(tmp_path: Path) -> LaunchPlan:
    return pods.plan_for(pods.weights(tmp_path / "model"))


def needing(plan: LaunchPlan, **needs: object) -> LaunchPlan:
    return structs.replace(plan, requires=structs.replace(Requires(), **needs))


def test_a_smaller_memory_limit(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("8589934592\n")
    files = (tmp_path / "none", limit)
    monkeypatch.setattr(starving, "memory_limit", partial(starving.memory_limit, files))

    assert podfit.memory_limit_holds_the_plan(needing(plan, memory=8 << 30)) is None
    assert podfit.memory_limit_holds_the_plan(needing(plan, memory=9 << 30)) == (
        "the container's memory limit is 8.0 GiB and the plan needs 9.0; see what changed the pod's"
        " resources, such as a LimitRange or a VerticalPodAutoscaler"
    )
    limit.write_text("max\n")
    assert podfit.memory_limit_holds_the_plan(needing(plan, memory=9 << 30)) is None


def test_shared_memory_that_is_too_small(plan: LaunchPlan) -> None:
    assert podfit.shared_memory_is_large_enough(needing(plan, shared_memory=1)) is None
    said = podfit.shared_memory_is_large_enough(needing(plan, shared_memory=1 << 50))

    assert said is not None
    assert said.endswith("the plan needs 1048576.0; see what changed the pod's volume shm")


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (Package(name="msgspec"), None),
        (
            Package(name="msgspec", version="0.0.1"),
            " and the plan is for 0.0.1; use the runtime image of the operator's own release, or"
            " describe yours under the chart's `runtimes`",
        ),
        (
            Package(name="no-such-package"),
            "the image has no no-such-package, which the plan needs; use the runtime image of the"
            " operator's own release, or describe yours under the chart's `runtimes`",
        ),
    ],
)
def test_packages(plan: LaunchPlan, package: Package, words: str | None) -> None:
    said = podfit.packages_are_as_planned(needing(plan, packages=(package,)))

    assert said == words or (said is not None and words is not None and said.endswith(words))


def test_a_clock_in_the_past(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    fault.row(Kind.POD, "a clock in the past", "one sentence, exit 78", under=Under.ALONE)
    assert podfit.clock_is_sane(plan) is None
    monkeypatch.setattr(time, "time", lambda: 0.0)

    fault.begins()
    assert podfit.clock_is_sane(plan) == (
        "the node's clock shows 1970-01-01 00:00 UTC, which is in the past; set it, such as by NTP"
    )
    fault.within(1, "told")


@pytest.mark.parametrize(
    ("year", "words"),
    [
        (2025, "2025-01-01 00:00 UTC, which is in the past"),
        (2026, None),
        (2045, None),
        (2046, "2046-01-01 00:00 UTC, which is over 20 years after this release"),
        (2090, "2090-01-01 00:00 UTC, which is over 20 years after this release"),
        (9999, "9999-01-01 00:00 UTC, which is over 20 years after this release"),
    ],
)
def test_a_clock(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch, year: int, words: str | None
) -> None:
    moment = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()
    monkeypatch.setattr(time, "time", lambda: moment)

    assert podfit.clock_is_sane(plan) == (
        words and f"the node's clock shows {words}; set it, such as by NTP"
    )


def test_gpus_that_cannot_be_asked(plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> gpus.Found:
        raise gpus.UnseenError("NVML says no")

    monkeypatch.setattr(gpus, "look", fails)

    assert podfit.gpus_are_as_planned(plan) is None
    assert podfit.gpus_are_as_planned(needing(plan, device=DEVICE)) == (
        "the pod's GPUs cannot be asked (NVML says no); see that the node's container runtime is"
        " NVIDIA's and that the image keeps NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    )


def test_memory_that_is_freed_meanwhile_is_waited_for(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = gpus.Gpu(product="NVIDIA H200", memory=100 << 30, used=50 << 30, capability="9.0")
    freed = gpus.Gpu(product="NVIDIA H200", memory=100 << 30, used=0, capability="9.0")
    looks = iter([gpus.Found("580", (gpu,)), gpus.Found("580", (freed,))])
    monkeypatch.setattr(gpus, "look", lambda: next(looks))

    assert podfit.gpus_are_as_planned(needing(plan, device=DEVICE)) is None


def tensors(file: Path, *, missing: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + b"x" * (8 - missing))


def index(folder: Path, *names: str) -> None:
    text = json.dumps({"weight_map": {"w" * (n + 1): name for n, name in enumerate(names)}})
    (folder / "model.safetensors.index.json").write_text(text)


Broken = Callable[[Path], object]
BROKEN: dict[str, tuple[Broken, str]] = {
    "a file is missing": (
        lambda folder: index(folder, "a.safetensors", "b.safetensors"),
        "lacks 2 of the 2 files that model.safetensors.index.json names, such as a.safetensors",
    ),
    "the index is none": (
        lambda folder: (folder / "model.safetensors.index.json").write_text("[]"),
        "model.safetensors.index.json in the weights folder",
    ),
    "a file is cut": (
        lambda folder: tensors(folder / "a.safetensors", missing=3),
        "a.safetensors in the weights folder has 73 bytes and its tensors need 76",
    ),
    "a file is empty": (
        lambda folder: (folder / "a.safetensors").write_bytes(b""),
        "a.safetensors in the weights folder has no header of its tensors",
    ),
}


@pytest.mark.parametrize(("damage", "words"), BROKEN.values(), ids=BROKEN)
def test_weights_that_are_not_whole(plan: LaunchPlan, damage: Broken, words: str) -> None:
    damage(Path(plan.weights.path))

    found = Preflight(plan).first_problem()

    assert found is not None
    assert found.reason is Reason.WEIGHTS_INCOMPLETE
    assert words in found.problem
    assert found.problem.endswith(f"copy it again to {plan.weights.uri}")


def test_whole_weights_pass_and_every_check_is_told(plan: LaunchPlan) -> None:
    folder = Path(plan.weights.path)
    tensors(folder / "a.safetensors")
    index(folder, "a.safetensors")
    checks = Preflight(plan)

    assert checks.first_problem() is None
    names = {each.check for each in checks.results}
    assert {"tensor_files_are_whole", "clock_is_sane", "gpus_are_as_planned"} <= names
    assert all(each.problem == "" for each in checks.results)


def test_what_was_published_passes_and_of_large_files_only_the_size_is_compared(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(plan.weights.path)
    config = folder / "config.json"
    entry = Entry(
        path=config.name, size=config.stat().st_size, mtime_ns=0, blake3=digests.of_file(config)
    )
    manifest.write(folder, Manifest(uri="hf://org/tiny", revision="", files=(entry,)))
    assert modelfiles.files_are_as_published(plan) is None

    config.write_text(config.read_text().swapcase())
    assert modelfiles.files_are_as_published(plan) is not None
    monkeypatch.setattr(modelfiles, "_SMALL", 0)
    assert modelfiles.files_are_as_published(plan) is None


def test_chapters_are_judged_at_the_same_time(plan: LaunchPlan) -> None:
    def slow(_: LaunchPlan) -> str | None:
        time.sleep(0.5)
        return None

    def fails(_: LaunchPlan) -> str | None:
        return "no"

    checks = Preflight(
        plan, ((Reason.PREFLIGHT_FAILED, (slow,)),) * 8 + ((Reason.WEDGED, (fails, slow)),)
    )
    begun = time.monotonic()
    found = checks.first_problem()

    assert found is not None
    assert found.problem == "no"
    assert time.monotonic() - begun < 3
    assert len(checks.results) == 9


def test_a_check_with_a_fault_of_its_own_fails_nothing(plan: LaunchPlan) -> None:
    def broken(_: LaunchPlan) -> str | None:
        raise ZeroDivisionError

    assert Preflight(plan, ((Reason.PREFLIGHT_FAILED, (broken,)),)).first_problem() is None


@pytest.mark.parametrize(
    ("limits", "raised", "words"),
    [
        ((1024, 1_048_576), (65_536, 1_048_576), None),
        ((1024, 1024), None, None),
        ((1_048_576, 1_048_576), None, None),
        ((256, 512), (512, 512), "the container may open 512 files and an engine needs 1024"),
    ],
)
def test_open_files(
    plan: LaunchPlan,
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    raised: tuple[int, int] | None,
    words: str | None,
) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: seen.append(new))

    said = podfit.enough_files_may_be_open(plan)

    assert seen == ([] if raised is None else [raised])
    assert (said or "").partition(";")[0] == (words or "")


@pytest.mark.parametrize(
    ("has", "words"),
    [
        ((1000, 1024, "max"), None),
        ((1000, resource.RLIM_INFINITY, "4096"), None),
        ((1000, 128, "max"), "the container's user may have 128 threads and an engine needs 256"),
        ((0, 128, "max"), None),
        ((0, 1024, "100"), "the container may have 100 threads and an engine needs 256"),
    ],
)
def test_threads(
    plan: LaunchPlan,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    has: tuple[int, int, str],
    words: str | None,
) -> None:
    user, hard, pids = has
    (tmp_path / "pids.max").write_text(f"{pids}\n")
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(podfit, "_PIDS", tmp_path / "pids.max")
    monkeypatch.setattr(os, "getuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: seen.append(new))

    said = podfit.enough_threads_may_run(plan)

    assert seen == [(hard, hard)]
    assert (said or "").partition(";")[0] == (words or "")
