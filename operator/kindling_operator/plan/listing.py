"""Lists within a sentence: a few by name and the rest as a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST: Final = 6
_BYTES: Final = 256
"""A quarter of what a message may have: what is wrong and the fix stand beside the list."""


def few(parts: Sequence[str]) -> str:
    """The first parts, joined, and how many there are more: "a, b and 4 more"; "" for none."""
    shown = list(parts[:_MOST])
    while len(shown) > 1 and len(", ".join(shown).encode()) > _BYTES:
        shown.pop()
    more = len(parts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
