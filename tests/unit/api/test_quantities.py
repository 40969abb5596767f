"""Quantities and durations: the spellings of Kubernetes and Go."""

from fractions import Fraction

import pytest

from kindling_operator.model.quantities import (
    duration_seconds,
    format_bytes,
    quantity_bytes,
    quantity_millis,
    quantity_value,
)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (0, 0),
        (17, 17),
        ("17", 17),
        ("1Ki", 1024),
        ("80Gi", 80 * 2**30),
        ("20Ti", 20 * 2**40),
        ("1.5Gi", 3 * 2**29),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("500m", Fraction(1, 2)),
        ("250u", Fraction(1, 4000)),
        ("1n", Fraction(1, 10**9)),
        ("2e9", 2 * 10**9),
        ("2E9", 2 * 10**9),
        ("2E", 2 * 10**18),
        ("15e-1", Fraction(3, 2)),
        ("3e+2", 300),
        ("7Ei", 7 * 2**60),
    ],
)
def test_a_quantity_has_its_exact_value(quantity: int | str, value: Fraction) -> None:
    assert quantity_value(quantity) == value


@pytest.mark.parametrize(
    "quantity", ["", "Gi", "80GB", "80 Gi", "-1", "+1", "1,5Gi", ".5", "5.", "1e", "0x10", "٣", -1]
)
def test_what_is_no_quantity_is_refused_by_name(quantity: int | str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as error:
        quantity_value(quantity)
    assert repr(str(quantity)) in str(error.value)


def test_parts_of_a_unit_are_rounded_up() -> None:
    assert (quantity_bytes("1500m"), quantity_bytes("0.1"), quantity_bytes("1Gi")) == (2, 1, 2**30)
    assert (quantity_millis("0.0001"), quantity_millis("500m"), quantity_millis(2)) == (
        1,
        500,
        2000,
    )


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("0s", 0),
        ("45s", 45),
        ("10m", 600),
        ("168h", 604_800),
        ("1h30m", 5400),
        ("60ms", 0.06),
        ("1.5h", 5400),
    ],
)
def test_a_duration_has_its_seconds(duration: str, seconds: float) -> None:
    assert duration_seconds(duration) == seconds


@pytest.mark.parametrize(
    "duration", ["", "5", "7d", "1 h", "-1s", "h", "1h 30m", "1m30", "99999999h"]
)
def test_what_is_no_duration_is_refused_by_name(duration: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds(duration)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (7 * 2**20, "7.0 MiB"),
        (2**30, "1.0 GiB"),
        (79_580_000_000, "74.1 GiB"),
        (-(2**30), "-1.0 GiB"),
    ],
)
def test_bytes_are_written_for_people(count: int, text: str) -> None:
    assert format_bytes(count) == text
