"""Which objects of a deployment are deleted, and how pods tell which they use.

A pod does not write at each hit: now and then it writes one list of what it has used since the last
one. Names of objects are told as 8 bytes of their digest. All times are those of the store's own
clock, as it tells when an object was written; nobody's clock is trusted.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_MARK: Final = 8
ABOUT_SECONDS: Final = 600.0
_ROOM: Final = 0.9
"""Of the limit, to which is deleted when it is passed: not at each new object again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An object; `used` is when it was written or last told to be used, in seconds."""

    name: str
    size: int
    written: float
    used: float


def doomed(
    objects: Sequence[Kept],
    *,
    now: float,
    max_bytes: int,
    max_age: float,
    damaged: frozenset[bytes] = frozenset(),
) -> tuple[Kept, ...]:
    """What is to be deleted: what is damaged, what nobody has used for `max_age` seconds, and of
    the rest what was used longest ago while they are more than `max_bytes`; 0 bounds nothing.

    Of what was used at about the same time the newest goes first: of a prompt that is its end, and
    without its beginning nothing of it would be found."""
    gone = [
        each
        for each in objects
        if mark(each.name) in damaged or (max_age and now - each.used > max_age)
    ]
    names = {each.name for each in gone}
    rest = sorted(
        (each for each in objects if each.name not in names),
        key=lambda each: (each.used // ABOUT_SECONDS, -each.written, each.name),
    )
    total = sum(each.size for each in rest)
    if max_bytes and total > max_bytes:
        for each in rest:
            if total <= max_bytes * _ROOM:
                break
            gone.append(each)
            total -= each.size
    return tuple(gone)


def mark(name: str) -> bytes:
    """An object's name, shortly."""
    return hashlib.blake2b(name.encode(), digest_size=_MARK).digest()


def list_of(used: Iterable[bytes], damaged: Iterable[bytes]) -> bytes:
    """What a pod tells: marks of objects that it uses, and of those that it found damaged."""
    first = b"".join(sorted(set(used)))
    return len(first).to_bytes(8, "big") + first + b"".join(sorted(set(damaged)))


def read_list(content: bytes) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """The same again: used, damaged; of something else what happens to be in it."""
    cut = 8 + int.from_bytes(content[:8], "big")
    return _marks(content[8:cut]), _marks(content[cut:])


def _marks(content: bytes) -> frozenset[bytes]:
    return frozenset(content[at : at + _MARK] for at in range(0, len(content) - _MARK + 1, _MARK))
