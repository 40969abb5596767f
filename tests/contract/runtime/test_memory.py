"""The kernel ends an engine for memory: a real cgroup, the real runtime, a stand-in that eats."""

from pathlib import Path

from tests.support import memcgroup
from tests.support.engine import pod as pods
from tests.support.faultpage import Fault, Kind

from kindling_runtime.contract import ExitCode, Phase, Reason

MIB = 1 << 20
LIMIT = 512 * MIB


async def test_an_engine_over_the_memory_limit_is_told_with_the_limit(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.ENGINE,
        "takes more memory than its container may (OOM in the cgroup)",
        "`OutOfMemory` with the limit and the fix, exit 70",
    )
    plan = pods.plan_for(pods.weights(tmp_path / "model"))
    with memcgroup.limited(LIMIT) as prefix:
        async with pods.running(plan, tmp_path, prefix=prefix) as pod:
            await pod.reach(Phase.READY)
            fault.begins()
            await pod.fault(eat=2 * LIMIT)

            assert await pod.exit_status() == ExitCode.ENGINE
            fault.within(pods.ROOM, "exit 70")
    assert (pod.reason, pod.message) == (
        Reason.OUT_OF_MEMORY,
        "the engine was killed by SIGKILL: the kernel ended one of its processes at the container's"
        " memory limit of 0.5 GiB; raise spec.runtime.resources.memory",
    )
