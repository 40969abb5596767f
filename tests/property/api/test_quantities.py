"""Properties of quantities and durations."""

import re
from datetime import timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kindling_operator.model.quantities import (
    DURATION_PATTERN,
    POSITIVE_PATTERN,
    QUANTITY_PATTERN,
    duration_seconds,
    quantity_bytes,
    quantity_millis,
    quantity_value,
)

NUMBERS = st.one_of(
    st.integers(0, 10**15).map(str),
    st.decimals(0, 10**9, places=3).map(lambda number: f"{number:f}"),
)
SUFFIXES = (
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e3",
)
QUANTITIES = st.builds(lambda number, suffix: number + suffix, NUMBERS, st.sampled_from(SUFFIXES))
ANYTHING = st.one_of(QUANTITIES, QUANTITIES.map(lambda text: f"{text}\n"), st.text(max_size=40))


@given(ANYTHING)
def test_a_quantity_is_read_exactly_if_the_rule_of_the_crd_lets_it_pass(text: str) -> None:
    try:
        value = quantity_value(text)
    except ValueError:
        value = None
    assert (value is not None) == (re.fullmatch(QUANTITY_PATTERN, text, re.ASCII) is not None)


@given(QUANTITIES)
def test_the_rule_for_positive_amounts_is_exact(text: str) -> None:
    assert (quantity_value(text) > 0) == (re.fullmatch(POSITIVE_PATTERN, text) is not None)


@given(st.integers(0, 2**62))
def test_an_integer_is_itself(count: int) -> None:
    assert quantity_bytes(count) == count == quantity_bytes(str(count))
    assert quantity_millis(count) == 1000 * count


@given(QUANTITIES)
def test_rounding_goes_up_and_by_less_than_one(text: str) -> None:
    value = quantity_value(text)
    assert 0 <= quantity_bytes(text) - value < 1
    assert 0 <= quantity_millis(text) - 1000 * value < 1


@given(
    st.integers(0, 10**4 - 1),
    st.integers(0, 10**6 - 1),
    st.integers(0, 10**8 - 1),
    st.integers(0, 10**11 - 1),
)
def test_a_duration_is_the_sum_of_its_parts(h: int, m: int, s: int, ms: int) -> None:
    text = f"{h}h{m}m{s}s{ms}ms"
    assert re.fullmatch(DURATION_PATTERN, text)
    assert duration_seconds(text) == float(3600 * h + 60 * m + s + Fraction(ms, 1000))


@given(st.text(max_size=40))
def test_a_duration_is_read_if_the_rule_of_the_crd_lets_it_pass(text: str) -> None:
    try:
        duration_seconds(text)
        read = True
    except ValueError:
        read = False
    assert read == (re.fullmatch(DURATION_PATTERN, text, re.ASCII) is not None)


@given(st.from_regex(DURATION_PATTERN, fullmatch=True).filter(lambda text: len(text) <= 32))
def test_what_the_pattern_lets_pass_is_within_what_go_and_python_count(text: str) -> None:
    """Go's durations end at 2**63 - 1 ns, and CEL's `duration` fails beyond them."""
    assert duration_seconds(text) * 10**9 < 2**63
    assert timedelta(seconds=duration_seconds(text)) >= timedelta()
