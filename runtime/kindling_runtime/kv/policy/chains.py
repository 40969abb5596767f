"""How the chunks of a prompt become objects.

The chunks of one group of one prompt are a chain: the hash of each covers all before it. Chunks
below 4 MiB are packed. A chain is cut at every `slots` chunks, counted from its beginning, so every
replica cuts alike; a run of consecutive chunks between two cuts is an object. At the end of a
prompt, and in groups of which only tails are kept, a run may be shorter.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kindling_runtime.kv.policy.layout import Layout

OBJECT_BYTES: Final = 4 << 20
"""An object that could be filled has at least so many: below, requests cost more than bytes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a chain; `index` counts from the beginning of the prompt, `slot` is its row of the
    primary tier."""

    key: bytes
    index: int
    slot: int


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive chunks between two cuts, in order: what one object holds."""

    group: int
    chunks: tuple[Chunk, ...]

    @property
    def anchor(self) -> Chunk:
        """The last of them, which names the object."""
        return self.chunks[-1]


def layout_for(chunk_bytes: int) -> Layout:
    """Of objects with chunks of that size."""
    return Layout(-(-OBJECT_BYTES // chunk_bytes), chunk_bytes)


def runs(group: int, chunks: Iterable[Chunk], slots: int) -> Iterator[Run]:
    """Chunks of one chain, in any order and each once, as runs."""
    run: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda each: each.index):
        if run and (chunk.index != run[-1].index + 1 or chunk.index % slots == 0):
            yield Run(group, tuple(run))
            run = []
        run.append(chunk)
    if run:
        yield Run(group, tuple(run))


@dataclass(slots=True)
class Gatherer:
    """Keeps the chunks of requests until their object is complete.

    vLLM stores a prompt in steps that end anywhere, and in order. An object is complete when it is
    full, when it has the prompt's last chunk, or when a later object of the chain has begun.
    """

    slots: int
    _kept: dict[str, dict[int, dict[int, Chunk]]] = field(default_factory=dict)

    def add(
        self, request: str, group: int, chunks: Sequence[Chunk], *, last: int | None
    ) -> list[Run]:
        """Take chunks of a request; the runs that are complete now. `last` is the index of the
        prompt's last chunk, None where it is not known."""
        kept = self._kept.setdefault(request, {}).setdefault(group, {})
        kept.update({chunk.index: chunk for chunk in chunks})
        newest = max(kept, default=0) // self.slots
        whole = [
            index
            for index in kept
            if index // self.slots < newest or self._is_complete(kept, index // self.slots, last)
        ]
        taken = [kept.pop(index) for index in whole]
        self._tidy(request, group)
        return list(runs(group, taken, self.slots))

    def flush(self, request: str) -> list[Run]:
        """What is left of a request that will store no more."""
        groups = self._kept.pop(request, {})
        return [
            run for group, kept in groups.items() for run in runs(group, kept.values(), self.slots)
        ]

    @property
    def waiting(self) -> int:
        """Chunks that are kept."""
        return sum(len(kept) for groups in self._kept.values() for kept in groups.values())

    def _is_complete(self, kept: dict[int, Chunk], window: int, last: int | None) -> bool:
        first = window * self.slots
        if last is not None and first <= last < first + self.slots and last in kept:
            return True
        return all(index in kept for index in range(first, first + self.slots))

    def _tidy(self, request: str, group: int) -> None:
        groups = self._kept[request]
        if not groups[group]:
            del groups[group]
        if not groups:
            del self._kept[request]
