"""Pods of one group: the real runtimes over stand-in engines, that start and end together."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import pytest
from tests.support.engine import pod as pods
from tests.support.engine.pod import Pod
from tests.support.faultpage import Fault, Kind
from tests.support.ports import free_ports

from kindling_runtime import contract
from kindling_runtime.contract import Drain, ExitCode, Group, LaunchPlan, Phase, Rank, Reason

LEADER: Final = "127.0.0.1"
HEADLESS: Final = (
    Rank(argv=("--master-addr={leader}", "--node-rank=0"), serves=True),
    Rank(argv=("--master-addr={leader}", "--node-rank=1", "--headless"), serves=False),
)
EACH_SERVES: Final = (Rank(serves=True), Rank(serves=True))


class Pair:
    """The plans of a leader and a follower on this machine, with ports of their own."""

    def __init__(self, model: Path, ranks: tuple[Rank, ...], **given: Any) -> None:
        gather = given.pop("gather_seconds", 45)
        [port] = free_ports(1)
        group = Group(ranks=ranks, port=port, gather_seconds=gather)
        given.setdefault("probe", pods.QUICK)
        self.plans: tuple[LaunchPlan, ...] = tuple(
            msgspec.structs.replace(pods.plan_for(model, **given), group=group) for _ in ranks
        )

    @contextlib.asynccontextmanager
    async def running(self, rank: int, folder: Path) -> AsyncIterator[Pod]:
        """One of them, as LeaderWorkerSet starts it."""
        await asyncio.to_thread(folder.mkdir)
        env = {contract.RANK_VARIABLE: str(rank), contract.LEADER_VARIABLE: LEADER}
        async with pods.running(self.plans[rank], folder, env=env) as pod:
            yield pod


def instant(log: str, phase: str) -> str:
    """When the runtime said that it is in a phase, as its log has it."""
    return next(line.split()[0] for line in log.splitlines() if f" INFO {phase} " in line)


async def _seen(follower: Pod) -> dict[str, Any]:
    """What the engine of a pod saw that is ready while it still loads."""
    async with asyncio.timeout(pods.PATIENCE):
        while True:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                return await follower.seen()
            await asyncio.sleep(0.05)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


async def test_no_engine_starts_before_the_whole_group_is_there(
    model: Path, tmp_path: Path
) -> None:
    pair = Pair(model, HEADLESS)
    async with pair.running(0, tmp_path / "leader") as leader:
        await leader.printed("waits for the others of its group")
        await asyncio.sleep(2)
        waiting = await leader.status()
        assert (waiting.phase, waiting.reason) == (Phase.STARTING, Reason.GATHERING)
        assert waiting.engine.pid is None
        assert waiting.evidence.last_miss == "1 of 2 pods are there and wait"

        async with pair.running(1, tmp_path / "follower") as follower:
            leads, follows = await leader.reach(Phase.READY), await follower.reach(Phase.READY)

            assert leads.reason is Reason.TOKEN_GENERATED
            assert follows.reason is Reason.LEADER_ANSWERS
            assert [s.group and (s.group.rank, s.group.met) for s in (leads, follows)] == [
                (0, True),
                (1, True),
            ]
            seen = await _seen(follower)
            assert seen["argv"][-3:] == ["--master-addr=127.0.0.1", "--node-rank=1", "--headless"]
            assert seen["requests"] == 0


async def test_a_follower_is_not_ready_before_the_leader_has_had_its_token(
    model: Path, tmp_path: Path
) -> None:
    pair = Pair(model, HEADLESS, switches=("--health-while-loading", "--load-seconds", "6"))
    async with (
        pair.running(0, tmp_path / "leader") as leader,
        pair.running(1, tmp_path / "follower") as follower,
    ):
        await follower.reach(Phase.READY)
        await leader.reach(Phase.READY)
        first, then = (instant(pod.log, "Ready") for pod in (leader, follower))
        assert first <= then


async def test_a_group_whose_loads_all_stand_still_is_given_up(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "SIGSTOP of a follower's loading engine, while the leader's waits for it",
        "Failed `Stuck` `stuckSeconds` + 5 s later, exit 70, names a pod; the follower, although it"
        " was stopped, is never ready and exits 70 with it",
    )
    limits = msgspec.structs.replace(pods.QUICK, startup_seconds=600, stuck_seconds=6)
    pair = Pair(model, HEADLESS, probe=limits, switches=("--load-seconds", "600"))
    async with pair.running(1, tmp_path / "follower") as follower:
        async with pair.running(0, tmp_path / "leader") as leader:
            await leader.reach(Phase.LOADING)
            status = await follower.reach(Phase.LOADING)
            assert status.engine.pid is not None
            fault.begins()
            os.kill(status.engine.pid, signal.SIGSTOP)

            assert await leader.exit_status() == ExitCode.ENGINE
            fault.within(6 + 5 + 2 + pods.ROOM, "exit 70")
            assert leader.reason is Reason.STUCK
            assert re.search(
                r"for \d+ s the processes of pod [01] of the group read nothing", leader.message
            )
            assert Phase.READY not in follower.log
        assert await follower.exit_status() == ExitCode.ENGINE
        fault.within(6 + 5 + 2 + 3 + 5 + 2 * pods.ROOM, "follower exits 70")
        assert follower.reason is Reason.GROUP_BROKEN


async def test_a_group_that_stays_incomplete_is_given_up_in_time(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "a pod of the group is missing",
        "no engine starts; exit 70 after `gatherSeconds`, says how many are there",
    )
    fault.begins()
    async with Pair(model, HEADLESS, gather_seconds=2).running(0, tmp_path / "leader") as leader:
        assert await leader.exit_status() == ExitCode.ENGINE
        fault.within(2 + 5 + pods.ROOM, "exit 70")
        assert leader.reason is Reason.START_DEADLINE_EXCEEDED
        assert leader.message == (
            "the group was not complete within 2 s (1 of 2 pods are there and wait); see why its"
            " other pods do not run"
        )


async def test_a_member_that_starts_again_makes_all_engines_start_again(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "a follower's engine dies",
        "it exits 70; the leader gives its engine up (`GroupBroken`) when it is there again; all"
        " gather anew and serve",
    )
    pair = Pair(model, HEADLESS, probe=pods.PATIENT)
    async with contextlib.AsyncExitStack() as stack:
        leader = await stack.enter_async_context(pair.running(0, tmp_path / "leader"))
        async with pair.running(1, tmp_path / "follower") as follower:
            await leader.reach(Phase.READY)
            await _seen(follower)
            fault.begins()
            await follower.fault(exit=1, says="ValueError: no")
            assert await follower.exit_status() == ExitCode.ENGINE
            fault.within(pods.ROOM, "follower exits 70")
            assert follower.reason is Reason.ENGINE_EXITED
        again = await stack.enter_async_context(pair.running(1, tmp_path / "again"))

        assert await leader.exit_status() == ExitCode.ENGINE
        fault.within(10 + pods.ROOM, "leader exits 70")
        assert leader.reason is Reason.GROUP_BROKEN
        assert leader.message == "pod 1 of the group has started again"
        assert (await again.status()).phase is Phase.STARTING

        anew = await stack.enter_async_context(pair.running(0, tmp_path / "anew"))
        await anew.reach(Phase.READY)
        await again.reach(Phase.READY)
        fault.within(20 + 2 * pods.ROOM, "served again")


async def test_a_follower_is_not_ready_without_its_leader_and_ends_after_it(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "the leader's pod is gone",
        "the follower is not ready, then `GroupBroken` after `wedgedSeconds`, exit 70",
    )
    pair = Pair(model, HEADLESS)
    async with pair.running(1, tmp_path / "follower") as follower:
        async with pair.running(0, tmp_path / "leader") as leader:
            await leader.reach(Phase.READY)
            await follower.reach(Phase.READY)
        # The leader's pod is gone, as with its node.
        fault.begins()
        await follower.reach(Phase.STALLED)
        assert not await follower.ready()
        fault.within(2 * (1 + 5) + pods.ROOM, "not ready")

        assert await follower.exit_status() == ExitCode.ENGINE
        fault.within(2 * (1 + 5) + 3 + 2 + pods.ROOM, "exit 70")
        assert follower.reason is Reason.GROUP_BROKEN
        assert follower.message.startswith("the leader of the group has not answered for ")


async def test_a_silent_follower_is_noticed(model: Path, tmp_path: Path, fault: Fault) -> None:
    fault.row(
        Kind.GROUP,
        "a follower's pod is gone",
        "the leader gives its engine up (`GroupBroken`) after `wedgedSeconds`, exit 70",
    )
    pair = Pair(model, HEADLESS)
    async with pair.running(0, tmp_path / "leader") as leader:
        async with pair.running(1, tmp_path / "follower"):
            await leader.reach(Phase.READY)
        fault.begins()

        assert await leader.exit_status() == ExitCode.ENGINE
        fault.within(3 + 1 + 2 + pods.ROOM, "exit 70")
        assert leader.reason is Reason.GROUP_BROKEN
        assert leader.message.startswith("pod 1 of the group was not heard for ")


async def test_a_follower_keeps_its_engine_until_the_leaders_last_stream_has_ended(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "SIGTERM to both pods with a stream",
        "the follower keeps its engine until the leader is gone; the stream is whole, both exit 0",
    )
    drain = Drain(endpoint_seconds=1, stream_seconds=20, grace_seconds=2)
    paced = ("--seconds-per-token", "0.05")
    pair = Pair(model, HEADLESS, drain=drain, switches=paced, probe=pods.PATIENT)
    async with (
        pair.running(0, tmp_path / "leader") as leader,
        pair.running(1, tmp_path / "follower") as follower,
    ):
        await leader.reach(Phase.READY)
        await follower.reach(Phase.READY)
        client = await leader.streaming(100)
        fault.begins()
        follower.terminate()
        leader.terminate()
        draining = await follower.reach(Phase.DRAINING)
        assert draining.drain is contract.DrainStep.LEADER

        assert pods.finish_reason(await client) == "length"
        assert (await follower.status()).drain is contract.DrainStep.LEADER
        assert await leader.exit_status() == ExitCode.CLEAN
        assert await follower.exit_status() == ExitCode.CLEAN
        fault.within(1 + 20 + 2 + 2 * pods.ROOM, "both exit 0")
        assert follower.reason is Reason.DRAINED


async def test_a_follower_that_serves_is_ready_by_its_own_token(
    model: Path, tmp_path: Path
) -> None:
    pair = Pair(model, EACH_SERVES)
    async with (
        pair.running(0, tmp_path / "leader") as leader,
        pair.running(1, tmp_path / "follower") as follower,
    ):
        await leader.reach(Phase.READY)
        status = await follower.reach(Phase.READY)

        assert status.reason is Reason.TOKEN_GENERATED
        assert (await follower.seen())["requests"] >= 1


async def test_a_groups_plan_without_a_group_is_refused(
    model: Path, tmp_path: Path, fault: Fault
) -> None:
    fault.row(Kind.GROUP, "a plan for a group outside of one", "exit 64, one sentence")
    fault.begins()
    [plan, _] = Pair(model, HEADLESS).plans

    assert await pods.run_to_end(contract.encode(plan), tmp_path) == (
        ExitCode.CONTRACT,
        "ContractRefused: the launch plan is for a group of 2 pods, and LWS_WORKER_INDEX is ''"
        " and LWS_LEADER_ADDRESS is '' here; run it as LeaderWorkerSet of that size",
    )
    fault.within(5 + pods.ROOM, "exit 64")
