"""Free GPUs per node, and who holds the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kindling_operator.model.names import Key
from kindling_operator.model.objects import NodeView, PodView

_ENDED = {"Succeeded", "Failed"}

Holder = Key
"""A model by namespace and name, or any other pod by its own."""


@dataclass(frozen=True, slots=True)
class Room:
    """Free GPUs by node name, and the rest by holder.

    `held` counts those of pods that are on the node, `reserved` those that are kept free for pods
    which are yet to come.
    """

    free: Mapping[str, int]
    held: Mapping[str, Mapping[Holder, int]]
    reserved: Mapping[str, Mapping[Holder, int]] = field(default_factory=dict)

    def less(self, nodes: Iterable[NodeView], *, gpus: int, times: int, of: Holder) -> Room:
        """What is left when room for `times` pods of `gpus` each is kept free on these nodes.

        The fullest node that has room is taken first, ties by name; pods that find none are left
        out.
        """
        free = dict(self.free)
        reserved = {node: dict(holders) for node, holders in self.reserved.items()}
        names = [node.name for node in nodes]
        for _ in range(times):
            open_nodes = [name for name in names if free.get(name, 0) >= gpus]
            if not open_nodes:
                break
            name = min(open_nodes, key=lambda node: (free[node], node))
            free[name] -= gpus
            holders = reserved.setdefault(name, {})
            holders[of] = holders.get(of, 0) + gpus
        return replace(self, free=free, reserved=reserved)

    def best(self, nodes: Iterable[NodeView]) -> NodeView | None:
        """The node with most free GPUs, ties by name."""
        return min(nodes, key=lambda node: (-self.free.get(node.name, 0), node.name), default=None)


def room_of(
    nodes: Iterable[NodeView], pods: Iterable[PodView], *, leave_out: Callable[[PodView], bool]
) -> Room:
    """The room beside every bound pod that still holds its GPUs, except those left out."""
    held: dict[str, Counter[Holder]] = {}
    for pod in pods:
        if pod.node and pod.gpus and pod.phase not in _ENDED and not leave_out(pod):
            holder = pod.model or Key(pod.namespace, pod.name)
            held.setdefault(pod.node, Counter())[holder] += pod.gpus
    free = {node.name: node.gpus - held.get(node.name, Counter()).total() for node in nodes}
    return Room(free=free, held=held)
