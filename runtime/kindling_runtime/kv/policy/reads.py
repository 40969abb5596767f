"""Which bytes of which objects bring the chunks that are wanted: one range of each object."""

from collections.abc import Sequence
from dataclasses import dataclass

from kindling_runtime.kv.policy.layout import Layout


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chunk that is wanted in row `slot`; it lies in the object with that anchor, `back` places
    before it. `position` orders what is needed first."""

    key: bytes
    slot: int
    position: int
    group: int
    anchor: bytes
    back: int


@dataclass(frozen=True, slots=True)
class Read:
    """The first `stop` bytes of an object: its header, and all chunks down to the one wanted that
    lies deepest. Chunks from the anchor back."""

    group: int
    anchor: bytes
    stop: int
    chunks: tuple[Wanted, ...]


def plan(wanted: Sequence[Wanted], layout: Layout) -> tuple[Read, ...]:
    """The reads that bring each wanted chunk once, the one with what is needed first before the
    others."""
    objects: dict[tuple[int, bytes], list[Wanted]] = {}
    for each in wanted:
        objects.setdefault((each.group, each.anchor), []).append(each)
    reads = [
        Read(
            group,
            anchor,
            layout.offset(1 + max(each.back for each in chunks)),
            tuple(sorted(chunks, key=lambda each: each.back)),
        )
        for (group, anchor), chunks in objects.items()
    ]
    return tuple(sorted(reads, key=lambda read: min(each.position for each in read.chunks)))
