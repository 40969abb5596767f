"""Who is believed to be which pod of a group, while DNS answers, is slow or away."""

import asyncio
import socket
import threading
from typing import Final

import msgspec
import pytest
from tests.support.engine.plans import launch_plan
from tests.support.engine.pod import until

from kindling_runtime import contract
from kindling_runtime.contract import ContractError, Group, Rank
from kindling_runtime.membership import member_of
from kindling_runtime.peers import Peers, has_names, name_of, on_this_host, plain

LEADER: Final = "tiny-1a2b-0-0.tiny-1a2b-0.prod"
FIRST, SECOND = "tiny-1a2b-0-0-1.tiny-1a2b-0.prod", "tiny-1a2b-0-0-2.tiny-1a2b-0.prod"
AWAY: Final = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


class Names:
    """A DNS that answers, fails, or does not come back before `released` is set."""

    def __init__(self) -> None:
        self.found: dict[str, frozenset[str]] = {FIRST: frozenset({"10.0.0.1"})}
        self.asked: list[str] = []
        self.fails: OSError | None = None
        self.released = threading.Event()
        self.released.set()

    def resolve(self, name: str) -> frozenset[str]:
        self.asked.append(name)
        fails = self.fails
        assert self.released.wait(30)
        if fails is not None:
            raise fails
        return self.found[name]


class Scene:
    """A group of three whose time stands still unless it is moved on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.names = Names()
        self.peers = Peers(LEADER, 3, clock=lambda: self.now, resolve=self.names.resolve)

    def says(self, address: str, *, incarnation: str = "a", rank: int = 1) -> bool:
        return self.peers.believes(rank, incarnation, address)

    async def is_believed(self, address: str, *, incarnation: str = "a") -> None:
        await until(lambda: self.says(address, incarnation=incarnation))

    async def is_told(self, doubt: str) -> None:
        await until(
            lambda: not self.says("10.9.9.9", incarnation="x") and self.doubt == doubt,
        )

    @property
    def doubt(self) -> str:
        return self.peers.doubts((1, 2))


def test_the_names_of_a_group() -> None:
    assert (name_of(LEADER, 1), name_of(LEADER, 2)) == (FIRST, SECOND)
    assert has_names(LEADER)
    assert not any(has_names(each) for each in ("10.0.0.1", "fd00::1", "leader", "127.0.0.1"))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("FD00:0::1", "fd00::1"),
        ("", ""),
    ],
)
def test_one_form_of_an_address(address: str, expected: str) -> None:
    assert plain(address) == expected


def test_who_is_on_this_host() -> None:
    for address in ("localhost", "127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"):
        assert on_this_host(address)
    for address in ("10.0.0.1", "leader", "", LEADER):
        assert not on_this_host(address)


async def test_an_address_of_the_pods_name_is_believed_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    assert not scene.says("10.0.0.1"), "nobody can tell yet"
    await scene.is_believed("10.0.0.1")
    assert not scene.says("10.9.9.9", incarnation="x")
    assert scene.doubt == f"; 10.9.9.9 says that it is pod 1, and {FIRST} is 10.0.0.1"
    assert scene.peers.strangers == 1
    for number in range(5):
        assert not scene.says(f"10.9.9.{number}", incarnation="x")
    assert scene.peers.strangers == 6
    assert caplog.text.count("is not believed") == 1
    assert scene.says("10.0.0.1")
    assert scene.names.asked == [FIRST]


async def test_a_doubt_ends_when_the_pod_itself_speaks() -> None:
    scene = Scene()
    await scene.is_told(f"; 10.9.9.9 says that it is pod 1, and {FIRST} is 10.0.0.1")
    assert scene.says("10.0.0.1")
    assert scene.doubt == ""


async def test_an_incarnation_that_was_believed_needs_no_dns_any_more() -> None:
    scene = Scene()
    await scene.is_believed("10.0.0.1")
    scene.now += 3600
    scene.names.fails = AWAY
    assert scene.says("10.0.0.1")
    assert scene.names.asked == [FIRST]


async def test_who_is_new_waits_while_dns_is_away_and_is_no_stranger() -> None:
    scene = Scene()
    scene.names.fails = AWAY
    await scene.is_told(
        f"; 10.9.9.9 says that it is pod 1, and the name {FIRST} is not known yet "
        "(Temporary failure in name resolution)"
    )
    assert scene.peers.strangers == 0
    scene.names.fails = None
    assert not scene.says("10.0.0.1")
    asked = len(scene.names.asked)
    assert not scene.says("10.0.0.1"), "not asked again at once"
    assert len(scene.names.asked) == asked
    scene.now += 1
    await scene.is_believed("10.0.0.1")


async def test_a_pod_that_got_another_address_is_believed_once_its_name_has_it() -> None:
    scene = Scene()
    await scene.is_believed("10.0.0.1")
    scene.names.found[FIRST] = frozenset({"10.0.0.7"})
    assert not scene.says("10.0.0.7", incarnation="b"), "the answer is still fresh"
    assert scene.names.asked == [FIRST]
    scene.now += 5
    await scene.is_believed("10.0.0.7", incarnation="b")
    assert not scene.says("10.0.0.1", incarnation="c"), "the old address is a stranger's now"


async def test_lookups_that_hang_hold_up_neither_anybody_nor_the_next_one_and_are_few() -> None:
    scene = Scene()
    scene.names.released.clear()
    for _ in range(100):
        assert not scene.says("10.0.0.1")
        scene.now += 1
        await asyncio.sleep(0)
    await until(lambda: len(scene.names.asked) == 3)
    scene.names.released.set()
    await scene.is_believed("10.0.0.1")


async def test_nobody_speaks_for_a_rank_that_there_is_not() -> None:
    scene = Scene()
    for rank in (-1, 0, 3, 1 << 60):
        assert not scene.says("10.0.0.1", rank=rank)
    assert scene.names.asked == []


async def test_without_names_whoever_is_on_this_host_is_believed() -> None:
    peers = Peers("127.0.0.1", 2, clock=lambda: 0.0)
    assert peers.believes(1, "a", "127.0.0.1")
    assert not peers.believes(1, "b", "10.9.9.9")
    assert peers.doubts((1,)) == (
        "; 10.9.9.9 says that it is pod 1, and all pods of the group are on this host"
    )
    assert peers.strangers == 1


@pytest.mark.parametrize("leader", ["10.0.0.1", "fd00::1", "leader"])
def test_a_group_without_names_on_several_hosts_is_refused(leader: str) -> None:
    group = Group(ranks=(Rank(serves=True), Rank(serves=False)))
    told = {contract.RANK_VARIABLE: "1", contract.LEADER_VARIABLE: leader}
    with pytest.raises(ContractError, match=f"LWS_LEADER_ADDRESS is '{leader}' here, by which"):
        member_of(msgspec.structs.replace(launch_plan(), group=group), told)
