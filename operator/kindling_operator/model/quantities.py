"""Kubernetes quantities and Go durations as plain numbers.

Both spellings are Kubernetes' own: quantities as in apimachinery's ``resource.Quantity``
(https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/), durations as
in Go's ``time.ParseDuration`` (https://pkg.go.dev/time#ParseDuration).
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

_SUFFIX: Final = r"([KMGTPE]i|[munkMGTPE]|[eE][+-]?[0-9]{1,2})?"
QUANTITY_PATTERN: Final = rf"^([0-9]+|[0-9]+\.[0-9]+){_SUFFIX}$"
POSITIVE_PATTERN: Final = rf"^(0*[1-9][0-9]*(\.[0-9]+)?|[0-9]+\.0*[1-9][0-9]*){_SUFFIX}$"
MAX_QUANTITY: Final = "4Pi"
"""More than any machine has, and within what JSON keeps exactly and an int64 of millis holds."""

_FRACTION: Final = r"(\.[0-9]+)?"
DURATION_PATTERN: Final = (
    rf"^([0-9]{{1,4}}{_FRACTION}h|[0-9]{{1,6}}{_FRACTION}m|[0-9]{{1,8}}{_FRACTION}s"
    rf"|[0-9]{{1,11}}{_FRACTION}ms)+$"
)
"""Digits are limited, because a sum beyond 292 years is an error in Go and in CEL."""
MAX_DURATION: Final = "8760h"

_QUANTITY: Final = re.compile(QUANTITY_PATTERN, re.ASCII)
_DURATION: Final = re.compile(DURATION_PATTERN, re.ASCII)
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", re.ASCII)

_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SECONDS: Final = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}


@lru_cache(maxsize=1024)
def quantity_value(quantity: int | str) -> Fraction:
    """The exact value of a quantity such as ``80Gi``, ``500m``, ``2e9`` or a bare integer.

    Raises ``ValueError`` for anything that Kubernetes would not read as a quantity >= 0.
    """
    text = str(quantity)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; write a number with a unit, such as 80Gi")
    return Fraction(match[1]) * _factor(match[2] or "")


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1024 ** (_BINARY.index(suffix) + 1))
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] or 0)
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


def quantity_bytes(quantity: int | str) -> int:
    """Whole bytes of a quantity, rounded up as Kubernetes rounds."""
    return ceil(quantity_value(quantity))


def quantity_millis(quantity: int | str) -> int:
    """Thousandths of a quantity (CPU in millicores), rounded up as Kubernetes rounds."""
    return ceil(quantity_value(quantity) * 1000)


@lru_cache(maxsize=1024)
def duration_seconds(duration: str) -> float:
    """Seconds of a Go duration such as ``168h``, ``1h30m`` or ``250ms``.

    Raises ``ValueError`` for anything else, signs included: none of our durations is negative.
    """
    if _DURATION.fullmatch(duration) is None:
        raise ValueError(
            f"{duration!r} is not a duration; write hours, minutes and seconds, such as 1h30m"
        )
    parts = _DURATION_PART.findall(duration)
    return float(sum(Fraction(number) * _SECONDS[unit] for number, unit in parts))


def canonical_quantity(quantity: int | str) -> str:
    """The same text for the same amount: ``1Gi`` and ``1024Mi`` are both ``1073741824``."""
    return str(quantity_value(quantity))


def canonical_duration(duration: str) -> str:
    """The same text for the same time: ``1h30m`` and ``90m`` are both ``5400.0``."""
    return str(duration_seconds(duration))


def is_quantity(quantity: int | str, *, positive: bool) -> bool:
    """Whether the API takes it: a quantity of at most `MAX_QUANTITY`."""
    try:
        value = quantity_value(quantity)
    except ValueError:
        return False
    return value <= quantity_value(MAX_QUANTITY) and (value > 0 or not positive)


def is_duration(duration: str, *, least: str) -> bool:
    """Whether the API takes it: a duration between `least` and `MAX_DURATION`."""
    try:
        seconds = duration_seconds(duration)
    except ValueError:
        return False
    return duration_seconds(least) <= seconds <= duration_seconds(MAX_DURATION)


def format_bytes(count: int) -> str:
    """Bytes for a person: GiB with one decimal from 1 GiB up, MiB below, bytes below 1 MiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
