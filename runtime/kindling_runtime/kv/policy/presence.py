"""What a pod knows of the objects that exist, so that it neither asks nor writes twice."""

from dataclasses import dataclass, field

from kindling_runtime.kv.policy.chains import Run


@dataclass(slots=True)
class Presence:
    """Objects by their anchor's key, the least recently used forgotten first.

    About 150 bytes for each: 40 MiB with `most` of them. What it knows may have changed since: a
    read that finds nothing and a write that finds something correct it.
    """

    most: int = 262_144
    _counts: dict[bytes, int] = field(default_factory=dict)
    _damaged: dict[bytes, None] = field(default_factory=dict)

    def exists(self, anchor: bytes, count: int) -> None:
        """An object is there, with so many chunks."""
        self._put(anchor, count)

    def gone(self, anchor: bytes) -> None:
        """An object that was counted on is not there: not asked for again, until it is written."""
        self._put(anchor, 0)

    def count(self, anchor: bytes) -> int | None:
        """How many chunks the object has, 0 where it is not to be read; None where nothing is
        known."""
        if anchor in self._damaged:
            return 0
        found = self._counts.pop(anchor, None)
        if found is not None:
            self._counts[anchor] = found
        return found

    def is_stored(self, anchor: bytes) -> bool:
        """Whether there is nothing to be written: it exists, or what exists is damaged."""
        return bool(self._counts.get(anchor)) or anchor in self._damaged

    def damaged(self, anchor: bytes) -> None:
        """An object has wrong bytes. It is neither read nor written by this pod until it was
        removed: its name is taken."""
        self._counts.pop(anchor, None)
        self._damaged[anchor] = None
        if len(self._damaged) > self.most:
            del self._damaged[next(iter(self._damaged))]

    def removed(self, anchor: bytes) -> None:
        """An object was deleted: it may be written again."""
        self._counts.pop(anchor, None)
        self._damaged.pop(anchor, None)

    @property
    def damage(self) -> tuple[bytes, ...]:
        """The anchors of all objects that are damaged."""
        return tuple(self._damaged)

    def __len__(self) -> int:
        return len(self._counts)

    def missing(self, run: Run) -> Run | None:
        """What of a run is to be written: the end of it may be in an object of the same name that
        another pod began later, with fewer chunks."""
        chunks = run.chunks
        while chunks and self.is_stored(chunks[-1].key):
            chunks = chunks[: -max(1, self._counts.get(chunks[-1].key, 0))]
        return Run(run.group, chunks) if chunks else None

    def _put(self, anchor: bytes, count: int) -> None:
        self._counts.pop(anchor, None)
        self._counts[anchor] = count
        if len(self._counts) > self.most:
            del self._counts[next(iter(self._counts))]
