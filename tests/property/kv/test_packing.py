"""Chains become objects alike in every replica, and every chunk lands in one of them."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kv.prompts import chunks_of, keys_of

from kindling_runtime.kv.policy.chains import OBJECT_BYTES, Gatherer, Run, layout_for, runs
from kindling_runtime.kv.policy.layout import DamagedError, Entry, Layout, identity
from kindling_runtime.kv.policy.reads import Wanted, plan

slots = st.integers(1, 9)
KIB = 1 << 10


def checksum(data: bytes | memoryview) -> bytes:
    return zlib.crc32(data).to_bytes(8, "big")


@st.composite
def steps(draw: st.DrawFn, length: int) -> list[range]:
    """How an engine might cut the storing of a prompt."""
    cuts = sorted(draw(st.sets(st.integers(1, length), max_size=6)) | {length})
    return [range(begin, end) for begin, end in zip([0, *cuts], cuts, strict=False)]


@given(st.data(), slots, st.integers(1, 40))
def test_replicas_that_step_differently_make_the_same_objects(
    data: st.DataObject, slots: int, length: int
) -> None:
    keys = keys_of("prompt", length)
    made = []
    for _ in range(2):
        gatherer, found = Gatherer(slots), list[Run]()
        for step in data.draw(steps(length)):
            found += gatherer.add("r", 0, chunks_of(keys, step), last=length - 1)
        assert gatherer.waiting == 0
        assert gatherer.flush("r") == []
        made.append({run.anchor.key: [chunk.key for chunk in run.chunks] for run in found})
    assert made[0] == made[1]
    assert sorted(key for run in made[0].values() for key in run) == sorted(keys)
    assert all(len(run) == slots for run in list(made[0].values())[:-1])


@given(slots, st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_every_chunk_is_in_one_object_and_none_reaches_across_a_cut(
    slots: int, indexes: set[int], last: int
) -> None:
    keys, gatherer = keys_of("prompt", 61), Gatherer(slots)
    found = list[Run]()
    for index in sorted(indexes):
        found += gatherer.add("r", 2, chunks_of(keys, [index]), last=last)
    assert gatherer.waiting < slots
    found += gatherer.flush("r")
    assert gatherer.waiting == 0
    assert sorted(chunk.index for run in found for chunk in run.chunks) == sorted(indexes)
    for run in found:
        places = [chunk.index for chunk in run.chunks]
        assert places == list(range(places[0], places[0] + len(places)))
        assert places[0] // slots == places[-1] // slots
    if slots > 1 and last not in indexes:
        joined = list(runs(2, chunks_of(keys, indexes), slots))
        assert {run.anchor.index for run in joined} == {run.anchor.index for run in found}


def test_requests_and_groups_do_not_mix() -> None:
    gatherer, keys = Gatherer(4), keys_of("prompt", 8)
    assert gatherer.add("a", 0, chunks_of(keys, [0, 1]), last=7) == []
    assert gatherer.add("a", 1, chunks_of(keys, [2, 3]), last=7) == []
    assert gatherer.add("b", 0, chunks_of(keys, [2, 3]), last=7) == []
    assert gatherer.waiting == 6
    assert [len(run.chunks) for run in gatherer.flush("a")] == [2, 2]
    assert gatherer.waiting == 2


@pytest.mark.parametrize("chunk", [16 * KIB, 256 * KIB, 1792 * KIB, 4096 * KIB, 10752 * KIB])
def test_a_full_object_has_4_mib_and_hardly_more(chunk: int) -> None:
    layout = layout_for(chunk)
    assert layout.slots * chunk >= OBJECT_BYTES
    assert (layout.slots - 1) * chunk < OBJECT_BYTES
    assert layout.header <= layout.slots * chunk // 128


@given(slots, st.integers(2, 1 << 20), st.data())
def test_a_header_says_what_was_written(slots: int, chunk: int, data: st.DataObject) -> None:
    layout = Layout(slots, chunk)
    count = data.draw(st.integers(1, slots))
    entries = [
        Entry(identity(f"{number}".encode()), data.draw(st.binary(min_size=8, max_size=8)))
        for number in range(count)
    ]
    header = layout.encode(entries, checksum)
    assert len(header) == layout.header == layout.offset(0)
    assert layout.decode(header + b"x" * 9, checksum) == tuple(entries)
    assert layout.count(layout.size(count)) == count
    assert layout.count(layout.size(count) - 1) is None
    assert layout.count(layout.size(slots + 1)) is None


@given(st.integers(0, 127), st.integers(1, 255))
def test_a_header_with_any_byte_changed_is_damaged(place: int, change: int) -> None:
    layout = Layout(2, 100)
    header = bytearray(layout.encode([Entry(identity(b"k"), b"12345678")], checksum))
    header[place % len(header)] ^= change
    with pytest.raises(DamagedError):
        layout.decode(bytes(header), checksum)


def test_a_header_of_another_layout_or_a_short_one_is_damaged() -> None:
    header = Layout(2, 100).encode([Entry(identity(b"k"), b"12345678")], checksum)
    with pytest.raises(DamagedError, match="one of another layout"):
        Layout(2, 101).decode(header, checksum)
    with pytest.raises(DamagedError, match=r"5 bytes instead of a header of 128"):
        Layout(2, 100).decode(header[:5], checksum)


@given(slots, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=20, unique=True))
def test_each_wanted_chunk_comes_once_and_what_is_needed_first_comes_first(
    slots: int, places: list[tuple[int, int]]
) -> None:
    layout = Layout(slots, 100)
    wanted = [
        Wanted(f"{number}/{back}".encode(), slot, 10 * number - back, 0, bytes([number]), back)
        for slot, (number, back) in enumerate(places)
        if back < slots
    ]
    reads = plan(wanted, layout)
    assert sorted(each.slot for read in reads for each in read.chunks) == sorted(
        each.slot for each in wanted
    )
    assert len({read.anchor for read in reads}) == len(reads)
    for read in reads:
        assert read.stop == max(layout.offset(each.back) + 100 for each in read.chunks)
    firsts = [min(each.position for each in read.chunks) for read in reads]
    assert firsts == sorted(firsts)
