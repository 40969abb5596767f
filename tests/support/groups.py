"""A cluster in memory whose model needs several nodes per replica, and what becomes of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.support.builders import GIB, KEY, Cluster, catalog_spec, gpu_node, serving_pod

from kindling_operator.model.names import CONTROLLER_REVISION, LEADER_WORKER_SET, Key
from kindling_operator.model.objects import NodeView, PodView
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Answers, Snapshot

GPUS: Final = 8
NO_ROOM: Final = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."


def spec(**fields: Any) -> Any:
    """Inkling in BF16, which two nodes of eight H200 hold."""
    return catalog_spec("inkling", **fields)


def nodes(count: int) -> tuple[NodeView, ...]:
    """Nodes of eight H200 with memory to spare."""
    return tuple(gpu_node(f"gpu-{number}", memory=4096 * GIB) for number in range(count))


@dataclass
class GroupCluster(Cluster):
    """What the watches show of groups, by hand."""

    nodes: tuple[NodeView, ...] = field(default_factory=lambda: nodes(4))
    absent: frozenset[Any] = frozenset()

    def snapshot(self) -> Snapshot:
        """As the planner sees it."""
        return replace(super().snapshot(), absent=self.absent)

    def apply(self, spec: Mapping[str, Any], *, key: Key = KEY, **metadata: Any) -> GroupCluster:
        """The user applies a spec."""
        super().apply(spec, key=key, **metadata)
        return self

    def step(self, key: Key = KEY) -> Decision:
        """One pass of the operator. The pods of a group go with its LeaderWorkerSet."""
        before = self.pods
        decision = super().step(key)
        kept = set(self.groups(key))
        self.pods = tuple(p for p in before if p.model != key or p.group in kept)
        self._route(key)
        return decision

    def groups(self, key: Key = KEY) -> tuple[str, ...]:
        """Names of the LeaderWorkerSets that stand."""
        found = self.children.get(key, {})
        return tuple(sorted(name for of, name in found if of == LEADER_WORKER_SET.kind))

    @property
    def hash(self) -> str:
        """The only stored revision."""
        [found] = self.remembered()
        return found

    def place(self, group: str, on: Iterable[str], *, key: Key = KEY) -> GroupCluster:
        """The pods of a group are made, on these nodes; "" is none."""
        others = tuple(pod for pod in self.pods if pod.group != group)
        made = (self._member(key, group, rank, node) for rank, node in enumerate(on))
        self.pods = (*others, *made)
        return self

    def serve_group(self, group: str, on: Iterable[str], *, key: Key = KEY) -> GroupCluster:
        """All pods of a group are ready, and its leader is behind the Service and has answered."""
        self.place(group, on, key=key)
        self.pods = tuple(replace(p, ready=True) if p.group == group else p for p in self.pods)
        place = (LEADER_WORKER_SET.kind, group)
        ready = {"replicas": 1, "readyReplicas": 1}
        self.children[key][place] = replace(self.children[key][place], status=ready)
        self._route(key)
        self.answers[key] = Answers(frozenset(pod.uid for pod in self.pods if pod.ready))
        return self

    def _member(self, key: Key, group: str, rank: int, node: str) -> PodView:
        name = f"{group}-0" if rank == 0 else f"{group}-0-{rank}"
        base = serving_pod(key, self.hash, rank, node=node, gpus=GPUS, created=self.now)
        placed = replace(base, name=name, uid=f"uid-of-{name}", group=group, rank=rank)
        if node:
            return placed
        return replace(placed, phase="Pending", unschedulable=NO_ROOM)


def stored(cluster: GroupCluster, key: Key = KEY) -> Any:
    """The data of the only stored revision."""
    [child] = (
        c for (kind, _), c in cluster.children[key].items() if kind == CONTROLLER_REVISION.kind
    )
    return child.manifest["data"]
