"""Keep what pods say at their end of requests that they have cut.

A pod's object goes away moments after its container, before a pass may have looked. What the watch
delivers last, its deletion too, still has the container's last words.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from kindling_operator.model.names import Key
from kindling_operator.model.reports import Cut
from kindling_operator.observe.fields import Body
from kindling_operator.observe.parse import pod
from kindling_runtime.contract import Reason, read_last_words

KEPT: Final = timedelta(minutes=30)
"""What is older is no news; an event of it exists, which the API server keeps for longer."""


class Cuts:
    """What is to be told of each model. What was told stays known, so that it is told once."""

    def __init__(self) -> None:
        self._found: dict[str, Cut] = {}
        self._told: set[str] = set()

    def hear(self, body: Body, *, now: datetime) -> None:
        """The watch delivered a pod, or that it is gone."""
        found = cut(body, now=now)
        if found is None or found.uid in self._found or now - found.at > KEPT:
            return
        old = [uid for uid, each in self._found.items() if now - each.at > KEPT]
        for uid in old:
            del self._found[uid]
        self._told.difference_update(old)
        self._found[found.uid] = found

    def told(self, cuts: Iterable[Cut]) -> None:
        """These need not be told again."""
        self._told.update(each.uid for each in cuts)

    @property
    def untold(self) -> Mapping[Key, tuple[Cut, ...]]:
        """What is to be told, by model and in the order of the ends."""
        found: dict[Key, list[Cut]] = {}
        for each in self._found.values():
            if each.uid not in self._told:
                found.setdefault(each.model, []).append(each)
        return {
            key: tuple(sorted(cuts, key=lambda each: (each.at, each.pod)))
            for key, cuts in found.items()
        }


def cut(body: Body, *, now: datetime) -> Cut | None:
    """What a pod cut, if its last words say so; `now` stands for an end that has no time."""
    view = pod(body)
    if view is None or view.model is None:
        return None
    reason, words = read_last_words(view.ended_message)
    if reason is not Reason.DRAIN_DEADLINE_EXCEEDED:
        return None
    return Cut(view.model, view.name, view.uid, words=words, at=view.ended_at or now)
