"""What a collection deletes: within the limits nothing, above them the least used, never more."""

from hypothesis import given
from hypothesis import strategies as st

from kindling_runtime.kv.policy import prices
from kindling_runtime.kv.policy.sweep import ABOUT_SECONDS, Kept, doomed, list_of, mark, read_list

kept = st.lists(
    st.builds(
        Kept,
        name=st.text("abc/", min_size=1, max_size=6),
        size=st.integers(1, 1000),
        written=st.floats(0, 1000),
        used=st.floats(0, 1000),
    ),
    max_size=20,
    unique_by=lambda each: each.name,
)


@given(kept, st.integers(0, 5000), st.integers(0, 1000))
def test_limits_hold_afterwards_and_the_least_used_went(
    objects: list[Kept], max_bytes: int, max_age: int
) -> None:
    gone = doomed(objects, now=1000.0, max_bytes=max_bytes, max_age=max_age)
    assert len({each.name for each in gone}) == len(gone)
    left = [each for each in objects if each not in gone]
    size = sum(each.size for each in left)
    assert not max_bytes or size <= max_bytes
    assert not max_age or all(1000.0 - each.used <= max_age for each in left)
    young = [each for each in gone if not max_age or 1000.0 - each.used <= max_age]
    if young:  # for space: only above the limit, the least used first, down to 90 % at most
        assert max_bytes
        assert max(map(_order, young)) <= min(map(_order, left), default=(1e9, 0.0))
        assert size + gone[-1].size > max_bytes * 0.9


def _order(each: Kept) -> tuple[float, float]:
    return each.used // ABOUT_SECONDS, -each.written


def test_damage_goes_whatever_its_age() -> None:
    objects = [Kept("a", 1, 0.0, 1000.0), Kept("b", 1, 0.0, 0.0)]
    gone = doomed(objects, now=1000.0, max_bytes=0, max_age=0, damaged=frozenset({mark("a")}))
    assert gone == (objects[0],)


@given(st.sets(st.text(max_size=8)), st.sets(st.text(max_size=8)))
def test_a_list_of_uses_is_read_as_it_was_written(used: set[str], bad: set[str]) -> None:
    told = read_list(list_of(map(mark, used), map(mark, bad)))
    assert told == (frozenset(map(mark, used)), frozenset(map(mark, bad)))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_list(content: bytes) -> None:
    used, bad = read_list(content)
    assert all(len(each) == 8 for each in used | bad)


def test_a_month_costs_requests_and_space() -> None:
    asked = {"put": 1000, "get": 10_000, "head": 10_000, "delete": 5000}
    assert abs(prices.requests_cost("s3", asked) - (0.005 + 20 * 0.0004)) < 1e-9
    day = prices.monthly_cost("s3", asked, seconds=86_400, kept=1_000_000_000_000)
    assert abs(day - (30 * 0.013 + 23.0)) < 1e-6
    assert prices.requests_per_gb(asked, 0) == 0.0
    assert prices.requests_per_gb({"get": 250}, 1_000_000_000) == 250
