"""Words within a sentence: lists, and another sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST: Final = 6
_BYTES: Final = 256
"""A quarter of what a message may have: what is wrong and the fix stand beside the list."""


def few(parts: Sequence[str], *, within: int = _BYTES) -> str:
    """The first parts, joined, and how many there are more: "a, b and 4 more"; "" for none.

    More than one is shown only `within` so many bytes.
    """
    shown = list(parts[:_MOST])
    while len(shown) > 1 and len(", ".join(shown).encode()) > within:
        shown.pop()
    more = len(parts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def joined(parts: Sequence[str], word: str) -> str:
    """All of them, the last after a word: "sm90, sm100 or sm103"."""
    *first, last = parts
    return f"{', '.join(first)} {word} {last}" if first else last


def lowered(sentence: str) -> str:
    """A sentence as the continuation of another."""
    return sentence[:1].lower() + sentence[1:]
