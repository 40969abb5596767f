"""Does anybody of a group still load: the leader's book of what each pod's engine processes do.

One that has loaded its part waits idle for the others, so nobody is stuck while another works.
"""

import dataclasses
from typing import Final

_LEADER: Final = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """What a pod has seen of its own load: looks in which its engine's processes worked, None
    where it does not tell; looks in which they read or wrote; whether it waits for nobody."""

    worked: int | None = None
    moved: int = 0
    loaded: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Since:
    done: Done
    at: float
    """When it was first told that so much is done."""


class GroupLoad:
    """What the pods of a group have told, by rank, themselves included."""

    def __init__(self) -> None:
        self._pods: dict[int, _Since] = {}
        self._moved = 0

    @property
    def moved(self) -> int:
        """Grows whenever any pod reads or writes."""
        return self._moved

    def hear(self, rank: int, done: Done, *, now: float) -> None:
        """Take down what a pod tells."""
        before = self._pods.get(rank)
        if before is not None and before.done == done:
            return
        if before is not None and before.done.moved != done.moved:
            self._moved += 1
        self._pods[rank] = _Since(done, now)

    def stuck(self, size: int, *, now: float, seconds: float) -> tuple[int, float] | None:
        """The pod that has stood still for longest, and for how long, once each of the `size` pods
        that still loads has for so many `seconds`; None before. One that does not tell works."""
        still: list[tuple[float, int]] = []
        for rank in range(size):
            known = self._pods.get(rank)
            if known is None or known.done.worked is None:
                return None
            if not known.done.loaded:
                still.append((now - known.at, rank))
        if not still or min(still)[0] < seconds:
            return None
        longest, rank = max(still, key=lambda each: (each[0], -each[1]))
        return rank, longest
