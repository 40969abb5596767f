"""Read your own writes: a model is not decided on again before the watches show what was written.

Without this, the events of the first written child start a pass that does not see the others yet:
it would write them again and compute the same transition of status twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kindling_operator.kube.kinds import MODEL
from kindling_operator.kube.versions import at_least
from kindling_operator.model.names import Key
from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.snapshot import Snapshot

GIVE_UP_SECONDS: Final = 5.0
"""A watch that is this late may have been told of something newer; decide on what is there."""
LOOK_AGAIN_SECONDS: Final = 0.05
"""The event itself wakes the key; this is for writes that changed nothing and cause no event."""


@dataclass(frozen=True, slots=True)
class _Expected:
    until: float
    written: tuple[ObjectRef, ...]


class Expectations:
    """What each model's last pass has written and the snapshot may not show yet."""

    def __init__(self) -> None:
        self._of: dict[Key, _Expected] = {}

    def expect(self, key: Key, written: Iterable[ObjectRef], *, now: float) -> None:
        """These objects were written, with the resource versions that the API server returned."""
        refs = tuple(written)
        if refs:
            self._of[key] = _Expected(now + GIVE_UP_SECONDS, refs)

    def met(self, key: Key, snapshot: Snapshot, *, now: float) -> bool:
        """Whether the snapshot shows every write of the key's last pass, or waiting is over."""
        expected = self._of.get(key)
        if expected is None:
            return True
        if now < expected.until and not all(_shown(ref, key, snapshot) for ref in expected.written):
            return False
        del self._of[key]
        return True


def _shown(ref: ObjectRef, key: Key, snapshot: Snapshot) -> bool:
    if ref.kind == MODEL:
        model = snapshot.models.get(key)
        # An object that is gone has told its end already.
        return model is None or at_least(model.metadata.resource_version, ref.resource_version)
    seen = next((c.ref for c in snapshot.children.get(key, ()) if _same(c.ref, ref)), None)
    return seen is not None and at_least(seen.resource_version, ref.resource_version)


def _same(one: ObjectRef, other: ObjectRef) -> bool:
    return (one.kind, one.namespace, one.name) == (other.kind, other.namespace, other.name)
