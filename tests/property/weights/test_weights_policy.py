"""What decides about weights on their way: ranges, leases, eviction, waiting, time left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kindling_runtime.weights import backoff
from kindling_runtime.weights.eviction import RESERVE, Entry, make_room
from kindling_runtime.weights.joined import TENSOR_FILES, lacking
from kindling_runtime.weights.leasing import Sighting, holds, next_number
from kindling_runtime.weights.parts import (
    LARGE_PART,
    RemoteFile,
    done_bytes,
    in_order,
    parts_of,
    total,
    unsafe,
)
from kindling_runtime.weights.progress import SLOWEST, Meter, duration_text, pair_text, size_text

sizes = st.integers(0, 3 * 256 << 20)
files = st.lists(
    st.builds(RemoteFile, path=st.text("abc/.", min_size=1, max_size=8), size=sizes),
    max_size=6,
    unique_by=lambda file: file.path,
)
entries = st.lists(
    st.builds(
        Entry,
        path=st.text("abc", min_size=1, max_size=6),
        bytes=st.integers(0, 1 << 40),
        used_at=st.floats(0, 1e9),
        in_use=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda entry: entry.path,
)


@given(sizes)
def test_the_parts_of_a_file_cover_it_once_and_in_order(size: int) -> None:
    parts = tuple(parts_of(RemoteFile("a", size)))
    ends = [0, *(part.end for part in parts)]
    assert [part.start for part in parts] == ends[:-1]
    assert ends[-1] == size
    assert all(0 < part.size <= LARGE_PART for part in parts)
    assert [part.index for part in parts] == list(range(len(parts)))


@given(files, st.randoms())
def test_what_is_done_and_what_is_not_make_the_whole(files: list[RemoteFile], random) -> None:  # type: ignore[no-untyped-def]
    every = [(part.file.path, part.index) for file in files for part in parts_of(file)]
    some = {each for each in every if random.random() < 0.5}
    rest = set(every) - some
    assert done_bytes(files, some) + done_bytes(files, rest) == total(files)


@pytest.mark.parametrize(
    ("name", "comes"),
    {
        "config.json": True,
        "generation_config.json": True,
        "tokenizer.json": True,
        "tokenizer.model": True,
        "tokenizer_config.json": True,
        "special_tokens_map.json": True,
        "chat_template.jinja": True,
        "vocab.json": True,
        "merges.txt": True,
        "model.safetensors.index.json": False,
        "README.md": False,
        "original/config.json": False,
        **{f"tokenizer{pattern[1:]}": False for pattern in TENSOR_FILES},
    }.items(),
)
def test_of_the_second_source_only_what_is_no_weight_comes(name: str, comes: bool) -> None:
    assert bool(lacking((), (RemoteFile(name, 1),))) == comes
    assert lacking((RemoteFile(name, 2),), (RemoteFile(name, 1),)) == ()


@given(files)
def test_small_files_come_first_and_none_is_left_out(files: list[RemoteFile]) -> None:
    ordered = in_order(files)
    assert sorted(ordered, key=lambda f: f.path) == sorted(files, key=lambda f: f.path)
    assert [f.size for f in ordered] == sorted(f.size for f in files)


@given(st.lists(st.sampled_from(["a", "..", ".", "", ".git", "b.json"]), min_size=1, max_size=4))
def test_no_name_leads_out_of_its_folder(pieces: list[str]) -> None:
    path = "/".join(pieces)
    leads_out = {"", ".", ".."} & set(pieces) or pieces[0].startswith(".")
    assert unsafe(path) == bool(leads_out)


@given(
    entries=entries,
    need=st.integers(0, 1 << 40),
    free=st.integers(0, 1 << 40),
    budget=st.none() | st.integers(0, 1 << 41),
)
def test_eviction_takes_the_least_recently_used_never_one_in_use_and_no_more_than_it_must(
    entries: list[Entry], need: int, free: int, budget: int | None
) -> None:
    room = make_room(entries, need=need, free=free, budget=budget)
    assert not any(victim.in_use for victim in room.victims)
    idle = sorted((e for e in entries if not e.in_use), key=lambda e: (e.used_at, e.path))
    assert list(room.victims) == idle[: len(room.victims)]
    stands = sum(entry.bytes for entry in entries)

    def fits(gone: int) -> bool:
        on_volume = free + gone >= need + RESERVE
        return need == 0 or (on_volume and (budget is None or stands - gone + need <= budget))

    gone = sum(victim.bytes for victim in room.victims)
    assert room.enough == fits(sum(entry.bytes for entry in idle))
    if room.enough:
        assert fits(gone)
        assert not room.victims or not fits(gone - room.victims[-1].bytes)
    else:
        assert not room.victims
        assert room.short > 0
        # Whoever gives what is said to be short has ended that lack.
        assert not room.of_budget or budget is not None
        raised = budget + room.short if budget is not None and room.of_budget else budget
        larger = free if room.of_budget else free + room.short
        eased = make_room(entries, need=need, free=larger, budget=raised)
        assert eased.enough or eased.of_budget != room.of_budget


@given(st.lists(st.tuples(st.integers(1, 3), st.binary(max_size=1), st.floats(0.1, 10))))
def test_a_lease_is_stale_only_if_nothing_of_it_moved_for_as_long(
    looks: list[tuple[int, bytes, float]],
) -> None:
    now, limit = 0.0, 15.0
    seen = Sighting(1, b"", now)
    moved = now
    for number, look, wait in looks:
        now += wait
        if (number, look) != (seen.number, seen.look):
            moved = now
        seen = seen.again(number, look, now=now)
        assert seen.is_stale(now, limit=limit) == (now - moved >= limit)


@given(st.sets(st.integers(1, 9)))
def test_of_all_leases_exactly_the_newest_holds(numbers: set[int]) -> None:
    fresh = next_number(numbers)
    assert fresh not in numbers
    assert holds(fresh, numbers | {fresh})
    assert [n for n in numbers if holds(n, numbers | {fresh})] == []


@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.floats(0.01, 20)), max_size=60))
def test_a_meter_counts_every_byte_and_tells_no_rate_that_never_was(
    arrivals: list[tuple[int, float]],
) -> None:
    whole = sum(count for count, _ in arrivals)
    meter, now = Meter.begin(whole, done=0, now=0.0), 0.0
    for count, wait in arrivals:
        now += wait
        meter = meter.arrived(count, now=now)
        rate = meter.rate(now)
        assert rate is None or 0 <= rate <= whole / 3
        left = meter.seconds_left(now)
        assert left is None or left >= 0
    assert meter.done == meter.fetched == whole
    assert len(meter.samples) <= 33


def test_a_steady_download_tells_its_rate_and_its_end() -> None:
    gib = 1 << 30
    meter, now = Meter.begin(600 * gib, done=200 * gib, now=0.0), 0.0
    for _ in range(100):
        now += 1
        meter = meter.arrived(gib, now=now)
    assert meter.sentence(now) == "300.0 of 600.0 GiB, 1.0 GiB/s, 5 min left"


@given(st.integers(1, 10_000), st.floats(0.1, 20))
def test_who_brings_less_than_counts_stands_still_the_longer_it_lasts(
    count: int, every: float
) -> None:
    meter = Meter.begin(1 << 40, done=0, now=0.0)
    moments = [every * number for number in range(1, 41)]
    for now in moments:
        meter = meter.arrived(count, now=now)
    idle, share = moments[-1] - meter.moved, count / every / SLOWEST
    assert idle == pytest.approx(max(0, 1 - share) * moments[-1], abs=1e-6)
    assert meter.crawls == (idle > 0)


def test_a_download_that_has_stopped_has_no_end() -> None:
    meter = Meter.begin(100, done=0, now=0.0).arrived(50, now=1.0)
    assert meter.rate(100.0) == 0
    assert meter.seconds_left(100.0) is None


@given(st.integers(1, 1000), st.floats(0, 1))
def test_waits_grow_to_a_bound_and_never_to_nothing(attempt: int, chance: float) -> None:
    wait = backoff.wait_seconds(attempt, chance=chance)
    assert 0.25 <= wait <= 20
    assert wait <= backoff.wait_seconds(attempt + 1, chance=0) + 1e-9


def test_sizes_and_times_read_as_people_write_them() -> None:
    assert size_text(820 << 20) == "820.0 MiB"
    assert size_text(12) == "12 B"
    assert pair_text(412 << 30, 592 << 30) == "412.0 of 592.0 GiB"
    assert [duration_text(s) for s in (40, 240, 9000)] == ["40 s", "4 min", "2.5 h"]
