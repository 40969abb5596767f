"""What is watched beside kopf, which keeps every body whole, or waits for a kind that is not there:
nodes, pods of others, and the objects of dynamic resource allocation."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from kindling_operator.kube.client import Kube
from kindling_operator.kube.kinds import (
    DEVICE_CLASS,
    DEVICE_KINDS,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from kindling_operator.kube.reflector import Reflector, Store
from kindling_operator.model.names import LABEL_MODEL, Kind
from kindling_operator.model.objects import DeviceHold, NodeUse, NodeView, PodView
from kindling_operator.observe.devices import (
    Allocations,
    Classes,
    Slices,
    with_devices,
)
from kindling_operator.observe.foreign import ForeignPods
from kindling_operator.observe.nodes import Nodes

FOREIGN: Final = f"!{LABEL_MODEL}"
"""Label selector of the pods that are not ours."""

S = TypeVar("S", bound=Store)
S_co = TypeVar("S_co", covariant=True)


class Source(Protocol[S_co]):
    """A store that is kept like the API server's objects; `lists` counts its whole lists."""

    @property
    def store(self) -> S_co: ...

    @property
    def synced(self) -> bool: ...

    @property
    def lists(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Beside:
    """The sources, one for each namespace or one for all; without any, nothing is there."""

    nodes: Source[Nodes] | None = None
    pods: Sequence[Source[ForeignPods]] = ()
    slices: Source[Slices] | None = None
    allocations: Sequence[Source[Allocations]] = ()
    classes: Source[Classes] | None = None
    runs: Sequence[Callable[[], Coroutine[Any, Any, None]]] = field(default=(), compare=False)
    lists: Sequence[Callable[[], Coroutine[Any, Any, None]]] = field(default=(), compare=False)

    @property
    def synced(self) -> bool:
        """Whether every source has delivered its first list."""
        single = (self.nodes, self.slices, self.classes)
        several = (*self.pods, *self.allocations)
        return all(each.synced for each in (*single, *several) if each is not None)

    @property
    def holds(self) -> tuple[tuple[int, int], ...]:
        """Differs when the holders of GPUs may differ."""
        return tuple((each.lists, each.store.holds) for each in self.pods)

    @property
    def uses(self) -> tuple[tuple[int, int], ...]:
        """Differs when the use of the nodes may differ."""
        return tuple((each.lists, each.store.uses) for each in self.pods)

    def holders(self) -> tuple[PodView, ...]:
        """The pods of others that hold or await GPUs, in no order."""
        return tuple(pod for each in self.pods for pod in each.store.holders)

    def used(self) -> dict[str, NodeUse]:
        """What the other pods of others take, by node."""
        found: dict[str, NodeUse] = {}
        for each in self.pods:
            for name, use in each.store.used.items():
                found[name] = found[name].plus(use) if name in found else use
        return found

    def views(self) -> tuple[NodeView, ...]:
        """The nodes by name, with what their ResourceSlices add."""
        nodes = self.nodes.store.views if self.nodes is not None else ()
        if self.slices is None:
            return nodes
        mapped = self.classes is not None and self.classes.store.mapped
        return with_devices(nodes, self.slices.store.devices, mapped=mapped)

    def device_holds(self) -> tuple[DeviceHold, ...]:
        """The GPUs that claims have, sorted by node."""
        devices = self.slices.store.devices if self.slices is not None else ()
        found = (hold for each in self.allocations for hold in each.store.held(devices))
        return tuple(sorted(found, key=lambda hold: (hold.node, hold.namespace, hold.name)))


def beside(
    kube: Kube,
    *,
    namespaces: Iterable[str] = (),
    nodes_changed: Callable[[], None],
    pods_changed: Callable[[], None],
    beat: Callable[[str], Callable[[], None]],
) -> Beside:
    """The sources as reflectors; `runs` are to be run. `namespaces`: those watched, none is all.

    `nodes_changed` is called for devices too. `beat` makes the heart-beat of a source by its name.
    """
    places = tuple(namespaces) or ("",)

    def one(kind: Kind, make: Callable[[], S], place: str = "") -> Reflector[S]:
        changed = pods_changed if kind == POD else nodes_changed
        name = "-".join(part for part in ("watch", kind.plural, place) if part)
        return _reflector(kube, kind, make, changed=changed, beat=beat(name), place=place)

    nodes = one(NODE, Nodes)
    pods = [one(POD, ForeignPods, place) for place in places]
    allocations = [one(RESOURCE_CLAIM, Allocations, place) for place in places]
    slices, classes = one(RESOURCE_SLICE, Slices), one(DEVICE_CLASS, Classes)
    every: tuple[Reflector[Any], ...] = (nodes, *pods, *allocations, slices, classes)
    return Beside(
        nodes=nodes,
        pods=pods,
        slices=slices,
        allocations=allocations,
        classes=classes,
        runs=tuple(each.run for each in every),
        lists=tuple(each.list for each in every),
    )


def _reflector(
    kube: Kube,
    kind: Kind,
    make: Callable[[], S],
    *,
    changed: Callable[[], None],
    beat: Callable[[], None],
    place: str,
) -> Reflector[S]:
    return Reflector(
        kube,
        kind,
        make,
        changed=changed,
        beat=beat,
        namespace=place,
        selector=FOREIGN if kind == POD else "",
        optional=kind in DEVICE_KINDS,
    )
