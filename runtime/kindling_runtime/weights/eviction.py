"""What leaves the cache when room is needed: values only. All sizes in bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

IDLE_SECONDS: Final = 900.0
"""A mark of use that has not moved for so long, on the file server's own clock, is a dead pod's:
a live one moves it once a minute."""
RESERVE: Final = 1 << 30
"""Stays free on the volume: kernels that engines compile, and what others write meanwhile."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder of the cache. `used_at` is its last use on the file server's clock."""

    path: str
    bytes: int
    used_at: float
    in_use: bool


@dataclass(frozen=True, slots=True)
class Room:
    """What goes, the least recently used first, and what is short even then: of the volume, or
    `of_budget`."""

    victims: tuple[Entry, ...]
    short: int
    of_budget: bool = False

    @property
    def enough(self) -> bool:
        """Whether what is needed fits once the victims are gone."""
        return self.short <= 0


def make_room(entries: Iterable[Entry], *, need: int, free: int, budget: int | None) -> Room:
    """The fewest of the least recently used entries, in that order, whose going makes room for
    `need` more bytes: on the volume, which has `free`, and within `budget`. Never one in use.

    If even all of them are not enough, none has to go.
    """
    held = tuple(entries)
    stands = sum(entry.bytes for entry in held)
    on_volume = need + RESERVE - free if need > 0 else 0
    in_budget = stands + need - budget if need > 0 and budget is not None else on_volume
    short = max(on_volume, in_budget)
    victims: list[Entry] = []
    for entry in sorted((e for e in held if not e.in_use), key=lambda e: (e.used_at, e.path)):
        if short <= 0:
            break
        victims.append(entry)
        short -= entry.bytes
    return Room(tuple(victims) if short <= 0 else (), short, of_budget=in_budget > on_volume)
