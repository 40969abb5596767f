"""The leader's book of its group: who waits, who was met, and whose engine is gone."""

import pytest

from kindling_runtime.roster import Answer, Beat, Roster


def beat(rank: int, incarnation: str, *, waiting: bool = True) -> Beat:
    return Beat(rank=rank, incarnation=incarnation, waiting=waiting)


def met() -> Roster:
    """A group of three that met at 10 s."""
    roster = Roster(3, silence_seconds=60)
    for rank in (1, 2):
        roster.hear(beat(rank, f"first-{rank}"), now=10)
    roster.meet()
    return roster


def test_it_is_complete_when_each_of_the_others_waits() -> None:
    roster = Roster(3, silence_seconds=60)
    assert roster.missing(now=0) == (1, 2)

    roster.hear(beat(2, "a"), now=1)
    assert roster.missing(now=1) == (1,)

    roster.hear(beat(1, "b"), now=2)
    assert roster.missing(now=2) == ()


@pytest.mark.parametrize(
    ("heard", "now"),
    [
        pytest.param(beat(1, "a", waiting=False), 1, id="its engine still runs"),
        pytest.param(beat(1, "a"), 12, id="it has not said so lately"),
        pytest.param(beat(2, "a"), 1, id="there is no such rank"),
        pytest.param(beat(0, "a"), 1, id="the leader does not wait for itself"),
    ],
)
def test_one_that_does_not_wait_is_missing(heard: Beat, now: float) -> None:
    roster = Roster(2, silence_seconds=60)
    roster.hear(heard, now=1)

    assert roster.missing(now=now) == (1,)


def test_only_those_that_were_met_may_start() -> None:
    roster = Roster(2, silence_seconds=60)
    assert roster.hear(beat(1, "a"), now=1) == Answer(met=False)
    roster.meet()

    assert roster.hear(beat(1, "a"), now=2) == Answer(met=True)
    assert roster.hear(beat(1, "b"), now=3) == Answer(met=False)


def test_a_group_is_whole_while_all_that_were_met_are_heard() -> None:
    roster = met()
    for rank in (1, 2):
        roster.hear(beat(rank, f"first-{rank}", waiting=False), now=60)

    assert roster.broken(now=119) is None


def test_another_incarnation_breaks_it() -> None:
    roster = met()
    roster.hear(beat(2, "second"), now=11)

    assert roster.broken(now=11) == "pod 2 of the group has started again"


def test_silence_breaks_it() -> None:
    roster = met()
    roster.hear(beat(1, "first-1", waiting=False), now=71)

    assert roster.broken(now=70) is None
    assert roster.broken(now=71) == "pod 2 of the group was not heard for 61 s"
