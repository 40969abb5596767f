"""Ranges of versions, as package metadata writes them: ``>=5.16.1,<5.21``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

Version = tuple[int, ...]

_BOUND = re.compile(r"(>=|<=|==|>|<)([0-9.]+)")
_PARTS = 4
_BRANCH_DIGITS = 4


def overlap(one: str, other: str) -> bool:
    """Whether some version is within both ranges; "" is every version."""
    lower, upper = [], []
    for operator, version in (*_bounds(one), *_bounds(other)):
        if operator in (">=", ">", "=="):
            lower.append((version, operator == ">"))
        if operator in ("<=", "<", "=="):
            upper.append((version, operator == "<"))
    return all(
        low < high or (low == high and not (above or below))
        for (low, above), (high, below) in product(lower, upper)
    )


def _bounds(text: str) -> Iterator[tuple[str, Version]]:
    for operator, version in _BOUND.findall(text):
        parts = [int(part) for part in version.split(".") if part]
        yield operator, tuple((*parts, *(0,) * _PARTS)[:_PARTS])


def branch_of(driver: str) -> int:
    """580 of NVIDIA's driver 580.65.06; 0 where nothing is said, or nothing that is a branch."""
    branch = driver.partition(".")[0]
    return int(branch) if branch.isdecimal() and len(branch) <= _BRANCH_DIGITS else 0


def is_too_old(driver: int, floor: str) -> bool:
    """Whether a driver's branch (535) is below that of the least version that does (580.65.06);
    False where either is not known."""
    return 0 < driver < branch_of(floor)
