"""What a pod remembers of objects, in bounded memory."""

import pytest
from tests.support.kv.prompts import chunks_of, keys_of

from kindling_runtime.kv.policy.admission import Sightings
from kindling_runtime.kv.policy.chains import Run
from kindling_runtime.kv.policy.presence import Presence


def test_it_remembers_and_forgets_what_was_used_least() -> None:
    presence = Presence(most=2)
    presence.exists(b"a", 1)
    presence.exists(b"b", 2)
    assert presence.count(b"a") == 1
    presence.exists(b"c", 3)
    assert (presence.count(b"a"), presence.count(b"b"), presence.count(b"c")) == (1, None, 3)
    assert len(presence) == 2


def test_what_was_not_there_is_not_asked_for_again_but_written() -> None:
    presence = Presence()
    presence.exists(b"a", 1)
    presence.gone(b"a")
    assert presence.count(b"a") == 0
    assert not presence.is_stored(b"a")
    presence.exists(b"a", 4)
    assert presence.count(b"a") == 4
    assert presence.is_stored(b"a")


def test_damage_is_neither_read_nor_written_until_it_was_removed() -> None:
    presence = Presence()
    presence.exists(b"a", 4)
    presence.damaged(b"a")
    assert presence.count(b"a") == 0
    assert presence.is_stored(b"a")
    assert presence.damage == (b"a",)
    presence.exists(b"a", 4)
    assert presence.count(b"a") == 0
    presence.removed(b"a")
    assert presence.count(b"a") is None
    assert not presence.is_stored(b"a")


@pytest.mark.parametrize(
    ("stored", "left"),
    [
        ({}, [4, 5, 6, 7]),
        ({7: 4}, []),
        ({7: 1}, [4, 5, 6]),
        ({7: 1, 6: 1}, [4, 5]),
        ({5: 2}, [4, 5, 6, 7]),
    ],
    ids=["nothing", "all", "its-end", "two-at-its-end", "its-middle"],
)
def test_of_a_run_that_is_written_which_no_object_of_its_name_has(
    stored: dict[int, int], left: list[int]
) -> None:
    presence, keys = Presence(), keys_of("prompt", 8)
    for index, count in stored.items():
        presence.exists(keys[index], count)
    rest = presence.missing(Run(0, tuple(chunks_of(keys, range(4, 8)))))
    assert [chunk.index for chunk in rest.chunks] == left if rest else not left


def test_an_object_that_is_damaged_keeps_its_name() -> None:
    presence, keys = Presence(), keys_of("prompt", 8)
    presence.damaged(keys[7])
    rest = presence.missing(Run(0, tuple(chunks_of(keys, range(4, 8)))))
    assert rest is not None
    assert [chunk.index for chunk in rest.chunks] == [4, 5, 6]


def test_a_second_sighting_is_known_and_a_first_one_is_not() -> None:
    sightings, keys = Sightings(), keys_of("prompt", 1000)
    first = sightings.see(keys)
    assert len(first) <= 20
    assert sightings.see(keys) == frozenset(keys)


def test_old_sightings_are_forgotten_and_recent_ones_are_not() -> None:
    sightings = Sightings(kept=100)
    keys = keys_of("prompt", 500)
    for at in range(0, 500, 50):
        sightings.see(keys[at : at + 50])
    assert sightings.see(keys[400:]) == frozenset(keys[400:])
    assert len(sightings.see(keys[:50])) <= 5
