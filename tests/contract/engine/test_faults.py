"""A real vLLM is broken under the runtime: each fault is found in time, and what is slow is kept.

One engine serves for as many faults as it survives: `break_engine.py` has the lives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from tests.contract.engine import break_engine as lives
from tests.contract.engine.in_image import MODEL, make_tiny, told
from tests.support import memcgroup
from tests.support.engine.pod import ROOM
from tests.support.faultpage import Fault, Kind, Under

from kindling_runtime.contract import ExitCode, Phase, Reason, read_last_words

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

GIB: Final = 1 << 30
MEMORY: Final = GIB
"""Its server and core want 1.6 GiB before there is a worker, which looks at the limit itself."""
QUICK: Final = ("served", "told_while_loading", "core_killed")
# vLLM notices a dead core at once and ends five seconds later.
ENDS_WITHIN: Final = 5 + ROOM
UNREADY_WITHIN: Final = (
    lives.QUICK.interval_seconds
    + lives.QUICK.unready_failures * (lives.QUICK.token_seconds + 6)
    + ROOM
)
GIVEN_UP_WITHIN: Final = (
    lives.QUICK.interval_seconds
    + lives.QUICK.token_seconds
    + lives.QUICK.wedged_seconds
    + lives.SHORT.grace_seconds
    + ROOM
)
WHOLE: Final = [["length", lives.TOKENS, True]] * lives.STREAMS

DEATHS: Final = {
    "engine core": "EngineDeadError",
    "worker": "its worker VllmWorker-0 ended without a word",
    "server": "was killed by SIGKILL",
}
"""What vLLM 0.32 says of it, or the kernel where it cannot."""


@dataclass(frozen=True, slots=True)
class Image:
    """What containers of the CPU image are given."""

    models: Path
    full: Path

    def live(self, *names: str, prefix: Sequence[str] = ()) -> dict[str, Any]:
        """What was seen in the lives of these names, one after the other in one container."""
        # A shared memory of its own, so that no other engine of this machine is seen; and a disk
        # without room.
        prepare = (
            "mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm;"
            f" mount -t tmpfs -o size=64k,mode=1777 tmpfs {self.full};"
            f" head -c 1M /dev/zero > {self.full}/filled 2> /dev/null || true"
        )
        return told(
            "break_engine",
            *(MODEL, "/full", *names),
            models=self.models,
            writable={self.full: "/full"},
            prefix=(*memcgroup.prepared(prepare), *prefix),
            seconds=1500,
        )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    root = tmp_path_factory.mktemp("faults")
    models, full = root / "models", root / "full"
    for folder in (models, full):
        folder.mkdir()
    make_tiny(models)
    root.chmod(0o755)
    return Image(models, full)


@pytest.fixture(scope="module")
def quick(image: Image) -> dict[str, Any]:
    """Three engines; all others are for `make soak`."""
    return image.live(*QUICK)


def of(seen: dict[str, Any], name: str) -> dict[str, Any]:
    """What was seen in one life."""
    found: dict[str, Any] = seen[name]
    assert "error" not in found, found["error"]
    return found


def words(seen: dict[str, Any]) -> tuple[int, Reason | None, str]:
    """Exit status, reason and sentence."""
    return seen["status"], *read_last_words(seen["words"])


def test_a_killed_resource_tracker_costs_nothing(quick: dict[str, Any], fault: Fault) -> None:
    fault.row(
        Kind.ENGINE,
        "SIGKILL to vLLM's resource tracker",
        "kept: it serves on, the same process",
        under=Under.VLLM,
    )
    seen = of(quick, "served")
    assert seen["processes"] == ["server", "resource tracker", "engine core", "worker"]
    tracker = seen["tracker"]
    assert (tracker["stream"], tracker["phase"]) == (["length", 10, True], Phase.READY)
    fault.within(ROOM, "next client served", took=tracker["seconds"])


def test_a_busy_engine_is_sent_no_canary(quick: dict[str, Any], fault: Fault) -> None:
    fault.row(
        Kind.ENGINE,
        "busy for some looks",
        "no canary while tokens advance",
        under=Under.VLLM,
    )
    busy = of(quick, "served")["busy"]
    assert len(busy["streams"]) >= len(WHOLE)
    assert all(end == WHOLE[0] for end in busy["streams"])
    assert busy["canaries"] == 0
    fault.within(3 * lives.QUICK.interval_seconds + ROOM, "looked at for", took=busy["seconds"])
    fault.note(f"{busy['canaries']:.0f} canaries")


def test_an_engine_that_stops_for_a_moment_is_kept(quick: dict[str, Any], fault: Fault) -> None:
    fault.row(
        Kind.ENGINE,
        f"SIGSTOP of core and worker for {lives.PAUSE_SECONDS} s while streams run, then SIGCONT",
        "kept, the same process; streams whole",
        under=Under.VLLM,
    )
    served = of(quick, "served")
    paused = served["paused"]
    assert paused["streams"] == WHOLE
    assert (paused["phase"], paused["pid"]) == (Phase.READY, served["tracker"]["pid"])
    fault.within(lives.PAUSE_SECONDS + 2 * ROOM, "all streams whole", took=paused["seconds"])


def test_an_engine_that_is_very_slow_is_kept(quick: dict[str, Any], fault: Fault) -> None:
    fault.row(
        Kind.ENGINE,
        f"runs a tenth of the time for {lives.SLOW_SECONDS} s (SIGSTOP, SIGCONT in turn)",
        "kept and ready all the time; streams whole",
        under=Under.VLLM,
    )
    served = of(quick, "served")
    slow = served["slow"]
    assert slow["unready"] == 0
    assert all(end == ["length", lives.FEW_TOKENS, True] for end in slow["streams"])
    assert (slow["phase"], slow["pid"]) == (Phase.READY, served["tracker"]["pid"])
    fault.within(lives.SLOW_SECONDS + 3 * ROOM, "all streams whole", took=slow["seconds"])


def test_a_stopped_core_is_found_though_health_is_green(
    quick: dict[str, Any], fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        "SIGSTOP of the engine core (hangs)",
        "Stalled after two looks, `Wedged` after `wedgedSeconds`, killed, exit 70",
        under=Under.VLLM,
    )
    seen = of(quick, "served")["stopped"]
    status, reason, sentence = words(seen)
    assert (status, reason) == (ExitCode.ENGINE, Reason.WEDGED)
    assert sentence.startswith("the engine is wedged: it runs and generated no token for ")
    assert seen["green"] > 0
    fault.within(UNREADY_WITHIN, "not ready", took=seen["unready"])
    fault.within(GIVEN_UP_WITHIN, "exit 70", took=seen["exit"])
    fault.note(f"`/health` said 200 in {seen['green']} looks after the end of readiness")


def test_a_full_disk_for_kernels_does_not_keep_it_from_serving(
    quick: dict[str, Any], fault: Fault
) -> None:
    fault.row(
        Kind.LOAD,
        "the disk of the kernel cache is full",
        "it starts and serves all the same",
        under=Under.VLLM,
    )
    seen = of(quick, "served")
    assert seen["paused"]["streams"] == WHOLE
    fault.within(lives.QUICK.startup_seconds, "first token", took=seen["ready"])


def test_sigterm_during_a_load_is_obeyed_at_once(quick: dict[str, Any], fault: Fault) -> None:
    fault.row(
        Kind.DRAIN,
        "SIGTERM during a load, when the core exists",
        "exit 0 after 5 s at the latest: vLLM does not heed it then and is killed",
        under=Under.VLLM,
    )
    seen = of(quick, "told_while_loading")
    status, reason, _ = words(seen)
    assert (status, reason) == (ExitCode.CLEAN, Reason.STOPPED_WHILE_LOADING)
    fault.within(5 + 5 + ROOM, "exit 0", took=seen["exit"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if f"{name[-4:]}_killed" in QUICK else pytest.mark.slow)
        for name in DEATHS
    ],
)
def test_a_killed_process_of_vllm_ends_the_pod_with_the_reason(
    name: str, image: Image, request: pytest.FixtureRequest, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        f"SIGKILL to vLLM's {name}",
        "not ready, exit 70 with the reason, nothing of it is left",
        under=Under.VLLM,
    )
    life = f"{name.rsplit(maxsplit=1)[-1]}_killed"
    seen = of(request.getfixturevalue("quick") if life in QUICK else image.live(life), life)
    status, reason, sentence = words(seen)
    assert (status, reason) == (ExitCode.ENGINE, Reason.ENGINE_EXITED)
    assert DEATHS[name] in sentence
    assert seen["alive"] == []
    fault.within(ENDS_WITHIN, "not ready", took=seen["unready"])
    fault.within(ENDS_WITHIN, "exit 70", took=seen["exit"])
    fault.note(sentence.removeprefix("the engine "))


def test_shared_memory_of_a_killed_engine_is_removed(quick: dict[str, Any], fault: Fault) -> None:
    fault.row(
        Kind.POD,
        "shared memory left by the engine that hung and was killed",
        "removed before the next engine starts, counted",
        under=Under.VLLM,
    )
    seen = of(quick, "core_killed")
    assert seen["removed"] > 0
    fault.within(ROOM, "removed", took=seen["removed_after"])
    fault.note(f"{seen['removed']:.0f} bytes")


@pytest.mark.slow
def test_a_stopped_server_is_found(image: Image, fault: Fault) -> None:
    fault.row(
        Kind.ENGINE,
        "SIGSTOP of vLLM's server",
        "Stalled, `Wedged` after `wedgedSeconds`, killed, exit 70",
        under=Under.VLLM,
    )
    seen = of(image.live("server_stopped"), "server_stopped")
    assert words(seen)[:2] == (ExitCode.ENGINE, Reason.WEDGED)
    assert seen["alive"] == []
    fault.within(UNREADY_WITHIN, "not ready", took=seen["unready"])
    fault.within(GIVEN_UP_WITHIN, "exit 70", took=seen["exit"])


@pytest.mark.slow
def test_a_core_that_dies_while_it_loads_ends_the_pod(image: Image, fault: Fault) -> None:
    fault.row(
        Kind.LOAD,
        "SIGKILL to the engine core while it loads",
        "exit 70 with the useful line of the log",
        under=Under.VLLM,
    )
    seen = of(image.live("killed_while_loading"), "killed_while_loading")
    status, reason, sentence = words(seen)
    assert (status, reason) == (ExitCode.ENGINE, Reason.ENGINE_EXITED)
    fault.within(15 + ENDS_WITHIN, "exit 70", took=seen["exit"])
    fault.note(sentence.removeprefix("the engine "))


@pytest.mark.slow
def test_sigterm_twice_cuts_no_stream(image: Image, fault: Fault) -> None:
    fault.row(
        Kind.DRAIN,
        f"SIGTERM twice with {lives.STREAMS} streams in flight",
        "the wait for endpoints ends; streams whole, exit 0",
        under=Under.VLLM,
    )
    seen = of(image.live("told_twice"), "told_twice")
    assert seen["streams"] == WHOLE
    assert words(seen)[:2] == (ExitCode.CLEAN, Reason.DRAINED)
    bound = lives.LONG.stream_seconds + lives.LONG.grace_seconds
    fault.within(ROOM, "not ready", took=seen["unready"])
    fault.within(bound, "exit 0", took=seen["exit"])


@pytest.mark.slow
def test_a_core_that_dies_while_the_pod_leaves_is_told(image: Image, fault: Fault) -> None:
    fault.row(
        Kind.DRAIN,
        f"SIGTERM with {lives.STREAMS} streams in flight, then SIGKILL to the engine core",
        "what was cut is told; no stream ends as if it were whole",
        under=Under.VLLM,
    )
    seen = of(image.live("core_killed_while_leaving"), "core_killed_while_leaving")
    status, reason, sentence = words(seen)
    # The streams have ended before the engine has, so that it is told to exit as any other.
    assert (status, reason) == (ExitCode.CLEAN, Reason.DRAIN_DEADLINE_EXCEEDED), sentence
    assert sentence.startswith(f"{lives.STREAMS} of {lives.STREAMS} running requests were cut; ")
    assert all(end[0] is None for end in seen["streams"])
    fault.within(lives.LONG.stream_seconds + lives.LONG.grace_seconds, "exit 0", took=seen["exit"])
    fault.note(sentence)


@pytest.mark.slow
def test_an_engine_over_the_memory_limit_is_told_with_the_limit(image: Image, fault: Fault) -> None:
    fault.row(
        Kind.LOAD,
        f"takes more than its container's {MEMORY / GIB:g} GiB (OOM in the cgroup)",
        "`OutOfMemory` with the limit and the fix, exit 70",
        under=Under.VLLM,
    )
    with memcgroup.limited(MEMORY) as prefix:
        seen = of(image.live("out_of_memory", prefix=prefix), "out_of_memory")
    status, reason, sentence = words(seen)
    assert (status, reason) == (ExitCode.ENGINE, Reason.OUT_OF_MEMORY)
    assert sentence.endswith(
        "the kernel ended one of its processes at the container's memory limit of"
        f" {MEMORY / GIB:.1f} GiB; raise spec.runtime.resources.memory"
    )
    fault.within(lives.QUICK.startup_seconds, "exit 70", took=seen["exit"])
    fault.note(sentence.removeprefix("the engine "))


@pytest.mark.slow
def test_a_full_shared_memory_ends_with_the_reason(image: Image, fault: Fault) -> None:
    fault.row(
        Kind.LOAD,
        "/dev/shm is full and the plan asks for none of it",
        "exit 70 with the useful line of the log",
        under=Under.VLLM,
    )
    fill = "head -c 2G /dev/zero > /dev/shm/filled 2> /dev/null || true"
    seen = of(image.live("no_shared_memory", prefix=memcgroup.prepared(fill)), "no_shared_memory")
    status, reason, sentence = words(seen)
    assert (status, reason) == (ExitCode.ENGINE, Reason.ENGINE_EXITED)
    fault.within(lives.QUICK.startup_seconds, "exit 70", took=seen["exit"])
    fault.note(sentence.removeprefix("the engine "))
