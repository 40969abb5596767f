"""Who of a group is there: the leader's book, and what the others tell it and hear.

Every runtime has an `incarnation`, a word that it makes up when it starts. The leader waits until
each of the others waits too, and then meets: it writes down their incarnations. From then on an
incarnation that it did not meet means an engine that is gone, and so does silence. The others ask
the leader alone, whether it has met them. So whoever starts again, all gather again, and the
leader decides when.
"""

import dataclasses

import msgspec

from kindling_runtime.groupload import Done, GroupLoad

GROUP_PATH = "/group"

_FRESH_SECONDS = 10.0
"""Somebody heard no longer ago still waits; they ask every second."""


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod tells its leader; `waiting` while its engine has not been started. The rest is of
    its engine's load: `groupload.Done`."""

    rank: int
    incarnation: str
    waiting: bool
    worked: int | None = None
    moved: int = 0
    loaded: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the leader has met this incarnation, whether its engine has generated a token, and
    `GroupLoad.moved`."""

    met: bool
    started: bool = True
    moved: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Heard:
    incarnation: str
    waiting: bool
    at: float


class Roster:
    """The leader's book of the `size` pods of a group, itself among them as rank 0."""

    def __init__(self, size: int, *, silence_seconds: float) -> None:
        """`silence_seconds`: for how long one that was met may not be heard."""
        self._others = range(1, size)
        self._silence = silence_seconds
        self._heard: dict[int, _Heard] = {}
        self._met: dict[int, str] | None = None
        self.started = False
        """Whether the leader's engine has generated a token."""
        self.load = GroupLoad()
        """Of the pods that were met, the leader included."""

    @property
    def met(self) -> bool:
        """Whether the group was complete once."""
        return self._met is not None

    def hear(self, beat: Beat, *, now: float) -> Answer:
        """Take a pod's word down."""
        if beat.rank in self._others:
            self._heard[beat.rank] = _Heard(beat.incarnation, beat.waiting, now)
        if self._has_met(beat):
            self.load.hear(beat.rank, Done(beat.worked, beat.moved, beat.loaded), now=now)
        return self.answer(beat)

    def answer(self, beat: Beat) -> Answer:
        """What is told to who says this, and nothing taken down: it may not be that pod."""
        return Answer(met=self._has_met(beat), started=self.started, moved=self.load.moved)

    def missing(self, *, now: float) -> tuple[int, ...]:
        """Ranks that do not wait, or have not said so lately."""
        return tuple(rank for rank in self._others if not self._waits(rank, now))

    def meet(self) -> None:
        """All are there: these are the engines that start together."""
        self._met = {rank: self._heard[rank].incarnation for rank in self._others}

    def broken(self, *, now: float) -> str | None:
        """Which engine of the group is gone, as a clause; None while all that were met are here."""
        for rank, incarnation in (self._met or {}).items():
            heard = self._heard[rank]
            if heard.incarnation != incarnation:
                return f"pod {rank} of the group has started again"
            if now - heard.at > self._silence:
                return f"pod {rank} of the group was not heard for {now - heard.at:.0f} s"
        return None

    def _has_met(self, beat: Beat) -> bool:
        return self._met is not None and self._met.get(beat.rank) == beat.incarnation

    def _waits(self, rank: int, now: float) -> bool:
        heard = self._heard.get(rank)
        return heard is not None and heard.waiting and now - heard.at <= _FRESH_SECONDS
