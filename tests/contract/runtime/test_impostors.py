"""Who says at port 9401 that it is a pod of the group: the real runtimes, and a DNS of the test's
own in which the pods have names as LeaderWorkerSet gives them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
import pytest
from tests.support.dns import NameServer, name_server
from tests.support.engine import pod as pods
from tests.support.engine.pod import Pod
from tests.support.faultpage import Fault, Kind
from tests.support.ports import free_ports

from kindling_runtime import contract
from kindling_runtime.contract import ExitCode, Group, LaunchPlan, Phase, Rank, Reason
from kindling_runtime.roster import GROUP_PATH, Answer, Beat

LEADER: Final = "tiny-0-0.tiny-0.prod"
FOLLOWER: Final = "tiny-0-0-1.tiny-0.prod"
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.9"
RANKS: Final = (Rank(serves=True), Rank(serves=False))
PACED: Final = ("--seconds-per-token", "0.05")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return pods.weights(tmp_path / "model")


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    async with name_server({LEADER: HERE, FOLLOWER: HERE}) as server:
        yield server


class Scene:
    """A group of two on this machine, by their names."""

    def __init__(
        self, model: Path, folder: Path, names: NameServer, *, gather_seconds: int = 45
    ) -> None:
        [self.port] = free_ports(1)
        self._folder = folder
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._names = names
        group = Group(ranks=RANKS, port=self.port, gather_seconds=gather_seconds)
        self._plans: tuple[LaunchPlan, ...] = tuple(
            msgspec.structs.replace(
                pods.plan_for(model, probe=pods.QUICK, switches=PACED), group=group
            )
            for _ in RANKS
        )

    @contextlib.asynccontextmanager
    async def running(self, rank: int, *, slow_dns: bool = False) -> AsyncIterator[Pod]:
        """One of them, as LeaderWorkerSet starts it; with `slow_dns` a question to a silent server
        takes half a minute."""
        folder = self._folder / str(rank)
        await asyncio.to_thread(folder.mkdir)
        env = {contract.RANK_VARIABLE: str(rank), contract.LEADER_VARIABLE: LEADER}
        prefix = self._names.prefix(folder, seconds=30 if slow_dns else 1)
        async with pods.running(self._plans[rank], folder, env=env, prefix=prefix) as pod:
            yield pod

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[tuple[Pod, Pod]]:
        """Both, once they serve."""
        async with self.speaking(), self.running(0) as leader, self.running(1) as follower:
            await leader.reach(Phase.READY)
            await follower.reach(Phase.READY)
            yield leader, follower

    @contextlib.asynccontextmanager
    async def speaking(self) -> AsyncIterator[None]:
        """Be somebody at the two addresses, over one connection each."""
        async with contextlib.AsyncExitStack() as stack:
            for address in (HERE, ELSEWHERE):
                connector = aiohttp.TCPConnector(local_addr=(address, 0), limit=1)
                session = aiohttp.ClientSession(connector=connector)
                self._sessions[address] = await stack.enter_async_context(session)
            yield

    async def say(self, address: str, *, waiting: bool = True) -> Answer:
        """What somebody at `address` hears who says that it is pod 1, started anew."""
        beat = Beat(rank=1, incarnation="another", waiting=waiting)
        url = f"http://{HERE}:{self.port}{GROUP_PATH}"
        data = msgspec.json.encode(beat)
        async with self._sessions[address].post(url, data=data) as response:
            assert response.status == 200
            return msgspec.json.decode(await response.read(), type=Answer)


async def strangers(leader: Pod) -> int:
    """How many words the leader has not believed."""
    group = (await leader.status()).group
    assert group is not None
    return group.strangers


async def test_a_stranger_who_says_that_it_is_another_pod_moves_nothing(
    model: Path, tmp_path: Path, names: NameServer, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "somebody at port 9401 says that it is another pod of the group, started anew",
        "not believed, counted, told once; the group stays ready, a stream whole",
    )
    scene = Scene(model, tmp_path, names)
    async with scene.ready() as (leader, follower):
        fault.begins()
        client = await leader.streaming(100)
        # Until the leader has looked the name up, and then for as long as the stream runs.
        await _until_counted(leader, scene)
        while not client.done():
            assert not (await scene.say(ELSEWHERE, waiting=False)).met
            assert not (await scene.say(ELSEWHERE)).met
            await asyncio.sleep(0.02)
        assert pods.finish_reason(await client) == "length"
        for pod in (leader, follower):
            assert (await pod.status()).phase is Phase.READY, pod.log
        assert leader.log.count("is not believed") == 1
        assert (
            f"{ELSEWHERE} says that it is pod 1, and {FOLLOWER} is {HERE}: it is not believed"
            in leader.log
        )
        count = await strangers(leader)
        assert f"kindling_runtime_group_strangers_total {float(count)}" in await leader.metrics()

        # The very same word from where the pod is: it is believed, and the group ends.
        await _until_broken(leader, scene)
        assert await leader.exit_status() == ExitCode.ENGINE
        fault.within(60, "judged")
        assert leader.reason is Reason.GROUP_BROKEN
        assert leader.message == "pod 1 of the group has started again"


async def _until_counted(leader: Pod, scene: Scene) -> None:
    async with asyncio.timeout(pods.PATIENCE):
        while await strangers(leader) == 0:
            assert not (await scene.say(ELSEWHERE)).met


async def _until_broken(leader: Pod, scene: Scene) -> None:
    async with asyncio.timeout(pods.PATIENCE):
        with contextlib.suppress(aiohttp.ClientError):
            while leader.process.returncode is None:
                await scene.say(HERE)
                await asyncio.sleep(0.05)


async def test_a_group_that_runs_does_not_need_dns(
    model: Path, tmp_path: Path, names: NameServer, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "DNS does not answer while a group serves, and a stranger speaks for a pod",
        "the group stays ready; the stranger waits, and moves nothing",
    )
    scene = Scene(model, tmp_path, names)
    async with scene.ready() as (leader, follower):
        names.silent = {LEADER, FOLLOWER}
        names.asked.clear()
        fault.begins()
        await _until_asked(names, scene, 1)
        before = await strangers(leader)
        # More questions take longer than `wedgedSeconds`, after which a pod that is not heard
        # breaks the group.
        await _until_asked(names, scene, 10)
        for pod in (leader, follower):
            assert (await pod.status()).phase is Phase.READY, pod.log
        assert pods.finish_reason(await leader.stream(5)) == "length"
        assert await strangers(leader) == before, "nobody can tell whether it is one"
        fault.within(2 * pods.PATIENCE, "ready")


async def _until_asked(names: NameServer, scene: Scene, times: int) -> None:
    """A stranger speaks until the leader has asked so often; each question is two, of IPv4 and
    IPv6."""
    async with asyncio.timeout(pods.PATIENCE):
        while names.asked.count(FOLLOWER) < times:
            assert not (await scene.say(ELSEWHERE)).met
            await asyncio.sleep(0.05)


async def test_a_pod_that_is_new_waits_while_dns_is_away(
    model: Path, tmp_path: Path, names: NameServer, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "DNS does not know a pod's name yet",
        "the group waits and says for which name; it starts once it is known",
    )
    names.silent = {FOLLOWER}
    scene = Scene(model, tmp_path, names)
    async with scene.running(0) as leader, scene.running(1) as follower:
        fault.begins()
        said = f"1 of 2 pods are there and wait; {HERE} says that it is pod 1, and the name"
        waiting = await _missed(leader, f"{said} {FOLLOWER} is not known yet (Temporary failure")
        assert (waiting.phase, waiting.reason) == (Phase.STARTING, Reason.GATHERING)
        names.silent = set()
        await leader.reach(Phase.READY)
        await follower.reach(Phase.READY)
        fault.within(2 * pods.PATIENCE, "ready")
        assert await strangers(leader) == 0


async def _missed(leader: Pod, text: str) -> contract.Status:
    """The status once it says so."""
    last = None
    try:
        async with asyncio.timeout(pods.PATIENCE):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    status = await leader.status()
                    last = status.evidence.last_miss
                    if (last or "").startswith(text):
                        return status
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(last) from None


async def test_a_pod_whose_dns_is_silent_says_so_and_leaves_at_once(
    model: Path, tmp_path: Path, names: NameServer, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "DNS takes half a minute to answer for the leader's name, SIGTERM",
        "the pod says that DNS is silent, and leaves without the answer, exit 0",
    )
    names.silent = {LEADER}
    scene = Scene(model, tmp_path, names)
    async with scene.running(1, slow_dns=True) as follower:
        await _missed(
            follower, f"the leader's name {LEADER} is not known yet (DNS has not answered for "
        )
        fault.begins()
        follower.process.terminate()
        assert await follower.exit_status() == ExitCode.CLEAN
        fault.within(pods.ROOM, "exit 0")
        # Two questions, of IPv4 and IPv6, still wait for their answer in the C library.
        assert names.asked.count(LEADER) <= 2
    assert follower.reason is Reason.STOPPED_WHILE_LOADING


async def test_a_pod_that_comes_from_another_address_than_its_name_has_is_named(
    model: Path, tmp_path: Path, names: NameServer, fault: Fault
) -> None:
    fault.row(
        Kind.GROUP,
        "a pod's connections come from another address than its name has (NAT, a proxy)",
        "no engine starts; exit 70 after `gatherSeconds`, names both addresses",
    )
    names.addresses[FOLLOWER] = ELSEWHERE
    scene = Scene(model, tmp_path, names, gather_seconds=8)
    async with scene.running(1), scene.running(0) as leader:
        fault.begins()
        assert await leader.exit_status() == ExitCode.ENGINE
        fault.within(8 + 5 + pods.ROOM, "exit 70")
        assert leader.reason is Reason.START_DEADLINE_EXCEEDED
        assert leader.message == (
            "the group was not complete within 8 s (1 of 2 pods are there and wait; "
            f"{HERE} says that it is pod 1, and {FOLLOWER} is {ELSEWHERE}); see why its other "
            "pods do not run"
        )


async def test_a_group_that_has_neither_names_nor_a_host_in_common_is_refused(
    model: Path, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    plan = msgspec.structs.replace(pods.plan_for(model), group=Group(ranks=RANKS, port=port))
    env = {contract.RANK_VARIABLE: "1", contract.LEADER_VARIABLE: "10.0.0.1"}
    async with pods.running(plan, tmp_path, env=env) as pod:
        assert await pod.exit_status() == ExitCode.CONTRACT
    assert pod.message == (
        "LWS_LEADER_ADDRESS is '10.0.0.1' here, by which the other pods of the group have no names;"
        " run it as LeaderWorkerSet, which gives it as POD.SUBDOMAIN.NAMESPACE"
    )
