"""The last sweep over all models, shared by every pass until what it looked at has changed.

A pass takes its own model's place from it, so one sweep serves a thousand passes and no GPU is
promised twice. A decision that was made from the same objects is not made again.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kindling_operator.model.conditions import ConditionType
from kindling_operator.model.names import Key
from kindling_operator.model.objects import NodeView
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.plan import Decision, RolloutState
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.fleet import Fleet, fleet_of
from kindling_operator.plan.placement import Placed, Placements

Sweep = Callable[[Snapshot, Fleet], Placements]
PlanOne = Callable[[Snapshot, Key, Placements], Decision]

_ANSWERS = 100
"""So many answers to specs that have been changed since may stay with a fleet."""

_Identity = tuple[str, int, str, bool]


@dataclass(frozen=True, slots=True)
class _Made:
    """A decision and the very objects that it was made from."""

    inputs: tuple[Any, ...]
    decision: Decision

    def holds(self, inputs: tuple[Any, ...], snapshot: Snapshot) -> bool:
        """Whether it would be made again: all else being the same, only time may change it."""
        again = self.decision.look_again
        same = len(inputs) == len(self.inputs) and all(
            new is old or (isinstance(new, tuple) and _all_are(new, old))
            for new, old in zip(inputs, self.inputs, strict=True)
        )
        return same and (again is None or snapshot.now < again)


class Placing:
    """Sweeps when asked to, or when a pass finds its model changed since; remembers decisions.

    A sweep over a large cluster takes seconds. `prepare` and `renew` make it in a thread, so that
    the loop goes on to renew the Lease; a sweep is a function of a snapshot and shares nothing.
    """

    def __init__(
        self,
        plan: PlanOne,
        sweep: Sweep,
        *,
        look: Callable[[], Snapshot],
        wake: Callable[[Key], None],
    ) -> None:
        """`look` gives the present snapshot, `wake` is called for every other model whose place a
        pass has found changed."""
        self.seconds = 0.0
        self._look = look
        self._one_at_a_time = asyncio.Lock()
        self._plan = plan
        self._sweep = sweep
        self._wake = wake
        self._nodes: tuple[NodeView, ...] = ()
        self._fleet = fleet_of(())
        self._placements = Placements({})
        self._swept: Mapping[Key, _Identity] = {}
        self._made: dict[Key, _Made] = {}

    async def prepare(self, key: Key) -> None:
        """Sweep before a pass over a model that has changed since the last sweep."""
        async with self._one_at_a_time:
            snapshot = self._look()
            if snapshot.synced and key in snapshot.models and not self._knows(snapshot, key):
                self._wake_all(await self._renew(snapshot), but=key)

    async def renew(self) -> frozenset[Key]:
        """Sweep; the models whose place is another one than before."""
        async with self._one_at_a_time:
            return await self._renew(self._look())

    def decide(self, snapshot: Snapshot, key: Key) -> Decision:
        """What one model should be now. Raises what planning it raises."""
        if not self._knows(snapshot, key):
            # Nobody has prepared it, or it has changed again since.
            self._wake_all(self._keep(snapshot, self._swept_now(snapshot)), but=key)
        inputs = self._inputs(snapshot, key)
        made = self._made.get(key)
        if made is not None and made.holds(inputs, snapshot):
            return made.decision
        self._made.pop(key, None)
        decision = self._plan(snapshot, key, self._placements)
        self._made[key] = _Made(inputs, decision)
        return decision

    async def _renew(self, snapshot: Snapshot) -> frozenset[Key]:
        return self._keep(snapshot, await asyncio.to_thread(self._swept_now, snapshot))

    def _swept_now(self, snapshot: Snapshot) -> Placements:
        started = time.thread_time()
        found = self._sweep(snapshot, self._fleet_of(snapshot))
        self.seconds = time.thread_time() - started
        return found

    def _keep(self, snapshot: Snapshot, new: Placements) -> frozenset[Key]:
        """Go by this sweep from now on; the models whose place is another one than before."""
        old, self._placements = self._placements, new.keeping(self._placements)
        self._swept = {key: _identity(model) for key, model in snapshot.models.items()}
        self._made = {key: made for key, made in self._made.items() if key in snapshot.models}
        return self._placements.changed(old)

    def _knows(self, snapshot: Snapshot, key: Key) -> bool:
        """Whether the last sweep saw this very model."""
        return self._swept.get(key) == _identity(snapshot.models[key])

    def _wake_all(self, keys: frozenset[Key], *, but: Key) -> None:
        for key in sorted(keys - {but}):
            self._wake(key)

    def _fleet_of(self, snapshot: Snapshot) -> Fleet:
        """The fleet of the last sweep, with what it remembers, while the nodes are the same."""
        too_much = len(self._fleet.answers) > _ANSWERS + 4 * len(snapshot.models)
        if snapshot.nodes is not self._nodes or too_much:
            self._nodes, self._fleet = snapshot.nodes, fleet_of(snapshot.nodes)
        return self._fleet

    def forget(self) -> None:
        """The world goes on unseen: the next pass sweeps."""
        self._swept = {}

    def unsettled(self) -> frozenset[Key]:
        """The models that wait for something or are on their way to a new revision."""
        return frozenset(key for key, made in self._made.items() if not _settled(made.decision))

    def _inputs(self, snapshot: Snapshot, key: Key) -> tuple[Any, ...]:
        placed: Placed | Exception | None = self._placements.get(key)
        return (
            snapshot.models[key],
            snapshot.children.get(key, ()),
            snapshot.endpoints.get(key, ()),
            snapshot.pods,
            snapshot.nodes,
            snapshot.claims,
            snapshot.absent,
            snapshot.answers.get(key),
            snapshot.environment,
            placed,
        )


def _identity(model: ParsedModel | Invalid) -> _Identity:
    metadata = model.metadata
    return metadata.uid, metadata.generation, metadata.replan, metadata.deletion is None


def _settled(decision: Decision) -> bool:
    scheduled = decision.verdict(ConditionType.SCHEDULED)
    return decision.state is RolloutState.STEADY and (scheduled is None or scheduled.holds)


def _all_are(new: tuple[Any, ...], old: Any) -> bool:
    """The same objects in the same order; tuples are made anew, what they hold is not."""
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
