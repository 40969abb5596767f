"""The leader's book of its group: who waits, who was met, and whose engine is gone."""

import msgspec
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
    assert roster.hear(beat(1, "a"), now=1) == Answer(met=False, started=False)
    roster.meet()

    assert roster.hear(beat(1, "a"), now=2) == Answer(met=True, started=False)
    assert roster.hear(beat(1, "b"), now=3) == Answer(met=False, started=False)


def test_only_the_loads_of_those_that_were_met_count() -> None:
    roster = met()
    for incarnation, moved in (("stranger", 0), ("first-1", 1)):
        for worked in (1, 2):
            told = Beat(rank=1, incarnation=incarnation, waiting=False, worked=worked, moved=worked)
            assert roster.hear(told, now=11).moved == moved * (worked - 1)


def test_words_of_a_runtime_that_tells_no_load_are_understood() -> None:
    heard = msgspec.json.decode(b'{"rank":1,"incarnation":"a","waiting":true}', type=Beat)
    assert (heard.worked, heard.moved, heard.loaded) == (None, 0, False)
    assert msgspec.json.decode(b'{"met":true}', type=Answer).started


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
