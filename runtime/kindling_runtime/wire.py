"""JSON and numbers that others have written, which may be anything."""

from typing import TypeVar

import msgspec

_Shape = TypeVar("_Shape")


def decoded(data: bytes, shape: type[_Shape]) -> _Shape | None:
    """`data` in that shape; None for whatever is not: other JSON, no UTF-8, endless nesting."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def number(text: str, *, digits: int) -> int | None:
    """A whole number of at most so many decimal digits; None for whatever is none."""
    plain = text.isascii() and text.isdecimal() and len(text) <= digits
    return int(text) if plain else None
