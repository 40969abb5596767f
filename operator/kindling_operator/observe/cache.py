"""The indexes, and what is watched beside them, as one snapshot.

It is rebuilt where an event has touched it, and shared where not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kindling_operator.kube.fence import Clock, boottime
from kindling_operator.model.names import Key
from kindling_operator.model.objects import (
    ChildView,
    ClaimView,
    DeviceHold,
    NodeUse,
    NodeView,
)
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.pods import Pods
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.observe.beside import Beside
from kindling_operator.observe.watched import (
    CHILDREN,
    CLAIMS,
    ENDPOINTS,
    MODELS,
    PODS,
    PRIORITIES,
    WATCHED,
    Entry,
    Watched,
)

_NODES: Final = "nodes"
USED_SECONDS: Final = 10.0
"""How old the sums of other pods may be."""

Index = Mapping[Any, Iterable[Entry]]
"""A kopf index as we fill it: one Entry per object."""


@dataclass(frozen=True, slots=True)
class World:
    """What every model's placement depends on; a change of it concerns all models."""

    models: tuple[tuple[Key, str, int], ...]
    nodes: tuple[NodeView, ...]
    holders: tuple[tuple[str, str, int, str, bool], ...]
    priorities: tuple[tuple[str, int], ...]
    used: Mapping[str, NodeUse]
    device_holds: tuple[DeviceHold, ...]


class Cache:
    """Read-only face of the indexes. `touch` after every event, `snapshot` before every decision.

    It is synced once kopf has listed all its kinds, which its first event tells, and each source
    beside it has as well.
    """

    def __init__(self, environment: Environment, *, clock: Clock = boottime) -> None:
        self._indexed = False
        self._beside = Beside()
        self._clock = clock
        self._environment = environment
        self._indices: Mapping[str, Index] = {}
        self._gone: set[str] = set()
        self._stale = {watched.id for watched in WATCHED}
        self._models: dict[Key, ParsedModel | Invalid] = {}
        self._nodes: tuple[NodeView, ...] = ()
        self._pods = Pods()
        self._holds: object = ()
        self._uses: object = ()
        self._used: dict[str, NodeUse] = {}
        self._used_at = float("-inf")
        self._device_holds: tuple[DeviceHold, ...] = ()
        self._claims: tuple[ClaimView, ...] = ()
        self._children: dict[Key, tuple[ChildView, ...]] = {}
        self._endpoints: dict[Key, tuple[str, ...]] = {}
        self._priorities: dict[str, int] = {}

    def attach(self, indices: Mapping[str, Index]) -> None:
        """Use these indexes, by the ids in WATCHED."""
        self._indices = indices

    def watches(self, watched: Watched) -> bool:
        """Whether there is an index of that kind: the cluster may lack an optional one."""
        return watched.id in self._indices

    def follow(self, beside: Beside) -> None:
        """Take these sources for what kopf does not watch."""
        self._beside = beside
        self._stale.update((PODS.id, _NODES))

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return self._indexed and self._beside.synced

    def touch(self, watched: Watched) -> None:
        """An event of this kind has been indexed."""
        self._indexed = True
        self._stale.add(watched.id)

    def touch_nodes(self) -> None:
        """A node has changed, or something of dynamic resource allocation."""
        self._stale.add(_NODES)

    def forget(self, uids: Iterable[str]) -> None:
        """These objects are known to be gone although no event said so. A uid never comes back."""
        self._gone.update(uids)
        self._stale.update(watched.id for watched in WATCHED)

    def entries(self, watched: Watched) -> Iterator[Entry]:
        """Every object in the index of one kind, those known to be gone left out."""
        for store in self._indices.get(watched.id, {}).values():
            yield from (entry for entry in store if entry.uid not in self._gone)

    def model_keys(self) -> tuple[Key, ...]:
        """Every InferenceModel."""
        self._refresh()
        return tuple(self._models)

    def model_keys_of(self, namespace: str) -> tuple[Key, ...]:
        """The InferenceModels of one namespace."""
        return tuple(key for key in self.model_keys() if key.namespace == namespace)

    def snapshot(self, *, now: datetime) -> Snapshot:
        """Everything that a decision may look at, as it is now."""
        self._refresh()
        return Snapshot(
            now=now,
            synced=self.synced,
            environment=self._environment,
            models=self._models,
            nodes=self._nodes,
            pods=self._pods,
            claims=self._claims,
            children=self._children,
            endpoints=self._endpoints,
            priorities=self._priorities,
            absent=frozenset(w.kind for w in WATCHED if w.optional and not self.watches(w)),
            used=self._used,
            device_holds=self._device_holds,
        )

    def world(self) -> World:
        """What concerns all models, comparable by value."""
        self._refresh()
        return World(
            models=tuple(
                (key, model.metadata.uid, model.metadata.generation)
                for key, model in self._models.items()
            ),
            nodes=self._nodes,
            holders=tuple(
                (pod.uid, pod.node, pod.gpus, pod.phase, pod.terminating)
                for pod in self._pods
                if pod.gpus
            ),
            priorities=tuple(self._priorities.items()),
            used=self._used,
            device_holds=self._device_holds,
        )

    def claims(self) -> tuple[ClaimView, ...]:
        """Every PersistentVolumeClaim."""
        self._refresh()
        return self._claims

    def _refresh(self) -> None:
        """Make the parts anew that events have touched; earlier snapshots keep the old ones."""
        stale, self._stale = self._stale, set()
        if MODELS.id in stale:
            self._models = {entry.view.key: entry.view for entry in self._sorted(MODELS)}
        if _NODES in stale:
            self._nodes = self._beside.views()
            self._device_holds = self._beside.device_holds()
        if PODS.id in stale or self._holds != self._beside.holds:
            self._holds = self._beside.holds
            self._pods = self._all_pods()
        self._refresh_used()
        if CLAIMS.id in stale:
            self._claims = tuple(entry.view for entry in self._sorted(CLAIMS))
        if PRIORITIES.id in stale:
            self._priorities = {entry.name: entry.view for entry in self._sorted(PRIORITIES)}
        if ENDPOINTS.id in stale:
            self._endpoints = self._ready_pods()
        if any(watched.id in stale for watched in CHILDREN):
            self._children = self._children_by_model()

    def _refresh_used(self) -> None:
        """Pods of others come and go all the time: their sums are renewed now and then, as each new
        view of them makes every model be placed again."""
        uses, now = self._beside.uses, self._clock()
        if uses != self._uses and now - self._used_at >= USED_SECONDS:
            self._uses, self._used_at, self._used = uses, now, self._beside.used()

    def _all_pods(self) -> Pods:
        own = (entry.view for entry in self._sorted(PODS))
        pods = (*own, *self._beside.holders())
        return Pods(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))

    def _sorted(self, watched: Watched) -> list[Entry]:
        return sorted(self.entries(watched), key=lambda entry: (entry.namespace, entry.name))

    def _ready_pods(self) -> dict[Key, tuple[str, ...]]:
        found: dict[Key, set[str]] = {}
        for entry in self._sorted(ENDPOINTS):
            found.setdefault(entry.view.model, set()).update(entry.view.ready_pods)
        return {key: tuple(sorted(pods)) for key, pods in found.items()}

    def _children_by_model(self) -> dict[Key, tuple[ChildView, ...]]:
        found: dict[Key, list[ChildView]] = {}
        for watched in CHILDREN:
            for entry in self._sorted(watched):
                if entry.key is not None:
                    found.setdefault(entry.key, []).append(entry.view)
        return {key: tuple(views) for key, views in found.items()}
