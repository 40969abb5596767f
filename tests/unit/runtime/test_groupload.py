"""Which pod of a group stands still, and whether any still works."""

import pytest

from kindling_runtime import clock
from kindling_runtime.contract import EvidenceSource, Group, Probe, Rank
from kindling_runtime.group import Follower, Leader, Seat, seat_of
from kindling_runtime.groupload import Done, GroupLoad
from kindling_runtime.membership import Member
from kindling_runtime.roster import Answer, Beat
from kindling_runtime.state import Event, Idle, Token, Worked


def load(*, size: int = 3) -> GroupLoad:
    """A group whose pods have all told of a first look at 0 s."""
    group = GroupLoad()
    for rank in range(size):
        group.hear(rank, Done(worked=1), now=0)
    return group


def test_nobody_is_stuck_while_one_works() -> None:
    group = load()
    for now in range(100):
        group.hear(0, Done(worked=1), now=now)
        group.hear(1, Done(worked=1), now=now)
        group.hear(2, Done(worked=now), now=now)
        assert group.stuck(3, now=now, seconds=60) is None


def test_the_one_that_stands_still_longest_is_named_once_all_do() -> None:
    group = load()
    group.hear(0, Done(worked=2), now=30)
    group.hear(2, Done(worked=2), now=10)

    assert group.stuck(3, now=89, seconds=60) is None
    assert group.stuck(3, now=90, seconds=60) == (1, 90)


def test_one_that_has_loaded_is_neither_stuck_nor_at_work() -> None:
    group = load(size=2)
    group.hear(1, Done(worked=9, loaded=True), now=50)
    assert group.stuck(2, now=61, seconds=60) == (0, 61)

    group.hear(0, Done(worked=9, loaded=True), now=61)
    assert group.stuck(2, now=999, seconds=60) is None


def test_one_that_does_not_tell_is_taken_to_work() -> None:
    group = load(size=2)
    group.hear(1, Done(), now=1)
    assert group.stuck(2, now=999, seconds=60) is None
    assert load(size=2).stuck(3, now=999, seconds=60) is None


def test_it_moves_when_anybody_reads() -> None:
    group = load(size=2)
    assert group.moved == 0
    group.hear(1, Done(worked=2), now=1)
    assert group.moved == 0
    group.hear(1, Done(worked=3, moved=1), now=2)
    group.hear(1, Done(worked=3, moved=1), now=3)
    group.hear(0, Done(worked=3, moved=1), now=3)
    assert group.moved == 2


LIMITS = Probe(startup_seconds=600, stuck_seconds=60)


def seat(rank: int) -> Seat:
    group = Group(ranks=(Rank(serves=True), Rank(serves=False)))
    return seat_of(Member(group, rank, "leader"), LIMITS)


def test_a_leader_whose_engine_waits_for_one_that_loads_is_not_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(clock.Awake, "now", lambda _: now[0])
    leader, seen = seat(0), list[Event]()
    assert isinstance(leader, Leader)
    leader.roster.hear(Beat(rank=1, incarnation="a", waiting=True), now=0)
    leader.roster.meet()
    leader.loads(Worked(moved=True), seen.append)
    for second in range(0, 200, 2):
        now[0] = float(second)
        # The follower reads until 100 s.
        worked = min(second, 100)
        told = Beat(rank=1, incarnation="a", waiting=False, worked=worked, moved=worked)
        leader.roster.hear(told, now=now[0])
        if second >= 60:
            leader.loads(Idle(second), seen.append)
        assert (seen == [Worked(moved=True)]) is (second < 160)
    # It is the leader's own engine that has stood still for longest.
    assert seen[1] == Idle(160, pod=0)


def test_a_follower_lets_its_leader_judge_until_that_one_has_started() -> None:
    follower, seen = seat(1), list[Event]()
    assert isinstance(follower, Follower)
    follower.loads(Worked(moved=True), seen.append)
    follower.loads(Idle(60), seen.append)
    assert seen == [Worked(moved=True)]

    follower.hear(Answer(met=True, started=False, moved=3), seen.append)
    assert seen == [Worked(moved=True)] * 2
    follower.hear(Answer(met=True, started=True, moved=3), seen.append)
    assert seen[2:] == [Token(EvidenceSource.LEADER)]
    follower.loads(Idle(62), seen.append)
    assert seen[3:] == [Idle(62)]
