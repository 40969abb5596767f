"""A cluster in memory for tests of deciding and rendering: what apply would make of a decision.

`Cluster` keeps what the watches would show. `step` decides, renders and takes the manifests as
applied; `start`, `serve` and `fail` are what the nodes and the Service would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kindling_operator import catalog
from kindling_operator.catalog import gpus, runtimes
from kindling_operator.model.architecture import CatalogEntry
from kindling_operator.model.names import (
    CHILD_KINDS,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    LABEL_REVISION,
    Key,
)
from kindling_operator.model.objects import (
    ChildView,
    ClaimView,
    GpuShare,
    NodeView,
    ObjectRef,
    PodView,
    Taint,
)
from kindling_operator.model.parse import Invalid, ParsedModel, parse
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Answers, Environment, Snapshot
from kindling_operator.plan import plan
from kindling_operator.render import Manifest, render

NOW: Final = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
KEY: Final = Key("ml", "tiny")
GIB: Final = 1 << 30

PRODUCTS: Final[Mapping[str, tuple[int, str, str]]] = {
    # Product label: MiB as nvidia-smi has it, compute capability.
    "NVIDIA-H200": (143_771, "9", "0"),
    "NVIDIA-H100-80GB-HBM3": (81_559, "9", "0"),
    "NVIDIA-B200": (183_359, "10", "0"),
    "NVIDIA-L40S": (46_068, "8", "9"),
    "NVIDIA-RTX-PRO-6000": (97_887, "12", "0"),
}


def environment(**changes: Any) -> Environment:
    """An installation of this release."""
    base = Environment(
        cuda_image="registry.test/kindling/runtime@sha256:c0da",
        cpu_image="registry.test/kindling/runtime-cpu@sha256:c0de",
        catalog=catalog.load_all(),
        runtimes=runtimes.load_all(),
        gpus=gpus.load_all(),
        speed=gpus.load_speed(),
    )
    return replace(base, **changes)


def gpu_node(name: str, product: str = "NVIDIA-H200", *, gpus: int = 8, **changes: Any) -> NodeView:
    """A ready node with GPUs and NVIDIA's labels, which say what its fields do."""
    mib, major, minor = PRODUCTS[product]
    base = NodeView(
        name=name,
        labels={
            "kubernetes.io/arch": "amd64",
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.compute.major": major,
            "nvidia.com/gpu.compute.minor": minor,
        },
        architecture="amd64",
        ready=True,
        unschedulable=False,
        cpu_millis=192_000,
        memory=2048 * GIB,
        gpus=gpus,
        gpu_product=product,
        gpu_memory=mib << 20,
    )
    node = replace(base, **changes)
    labels = {
        **node.labels,
        "kubernetes.io/arch": node.architecture,
        "nvidia.com/gpu.memory": str(node.gpu_memory >> 20) if node.gpu_memory else "",
        "nvidia.com/cuda.driver-version.major": node.driver.partition(".")[0],
        "nvidia.com/gpu.replicas": "2" if node.share is GpuShare.TIME else "1",
    }
    told = {key: value for key, value in labels.items() if value}
    return node if "labels" in changes else replace(node, labels=told)


def cpu_node(name: str = "laptop", **changes: Any) -> NodeView:
    """A ready node of 2 cores and 24 GiB."""
    base = NodeView(
        name=name,
        labels={"kubernetes.io/arch": "amd64"},
        architecture="amd64",
        ready=True,
        unschedulable=False,
        cpu_millis=2000,
        memory=24 * GIB,
        gpus=0,
        gpu_product="",
        gpu_memory=0,
    )
    return replace(base, **changes)


def tainted(node: NodeView, key: str, *, value: str = "", effect: str = "NoSchedule") -> NodeView:
    """The node with one more taint."""
    return replace(node, taints=(*node.taints, Taint(key, value, effect)))


def foreign_pod(
    node: str, *, gpus: int, name: str = "training", namespace: str = "other"
) -> PodView:
    """A pod of somebody else that holds GPUs."""
    return PodView(
        namespace=namespace,
        name=name,
        uid=f"uid-of-{namespace}-{name}",
        created=NOW,
        node=node,
        phase="Running",
        gpus=gpus,
        model=None,
        revision="",
        ready=True,
        terminating=False,
    )


def tiny_architecture(**changes: Any) -> dict[str, Any]:
    """The architecture of the tiny dense model that runs on CPU."""
    return {
        "architecture": "Qwen3ForCausalLM",
        "hiddenSize": 256,
        "vocabularySize": 2048,
        "attentionHeads": 8,
        "layers": 4,
        "intermediateSize": 512,
        "attention": [
            {"name": "full_attention", "kind": "Full", "layers": 4, "kvHeads": 2, "headSize": 64}
        ],
        "contextLength": 4096,
        "checkpoints": [{"name": "BF16", "bytes": 5_781_504}],
        "devices": ["CPU"],
        **changes,
    }


def tiny_spec(architecture: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A spec of the tiny model from the claim `weights`."""
    return {
        "model": {
            "name": "custom",
            "weights": {"uri": "pvc://weights/tiny"},
            "custom": dict(architecture or tiny_architecture()),
        },
        **fields,
    }


def catalog_spec(name: str, *, model: Mapping[str, Any] | None = None, **fields: Any) -> Any:
    """A spec of a catalog model from the claim `weights`."""
    return {
        "model": {"name": name, "weights": {"uri": f"pvc://weights/{name}"}, **(model or {})},
        **fields,
    }


def parsed(
    spec: Mapping[str, Any], *, key: Key = KEY, age: timedelta = timedelta(hours=1), **metadata: Any
) -> ParsedModel | Invalid:
    """An InferenceModel as the watch delivers it."""
    return parse(
        {
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "uid": f"uid-of-{key.name}",
                "generation": 1,
                "creationTimestamp": (NOW - age).isoformat(),
                **metadata,
            },
            "spec": dict(spec),
        }
    )


@dataclass
class Cluster:
    """What the watches show, by hand. Everything that a test cares about can be set."""

    nodes: tuple[NodeView, ...] = (cpu_node(),)
    pods: tuple[PodView, ...] = ()
    claims: tuple[ClaimView, ...] = (ClaimView("ml", "weights", "Bound", terminating=False),)
    environment: Environment = field(default_factory=environment)
    now: datetime = NOW
    models: dict[Key, ParsedModel | Invalid] = field(default_factory=dict)
    children: dict[Key, dict[tuple[str, str], ChildView]] = field(default_factory=dict)
    endpoints: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    answers: dict[Key, Answers] = field(default_factory=dict)

    def apply(self, spec: Mapping[str, Any], *, key: Key = KEY, **metadata: Any) -> Cluster:
        """The user applies a spec."""
        self.models[key] = parsed(spec, key=key, **metadata)
        return self

    def snapshot(self) -> Snapshot:
        """The moment as the planner sees it."""
        return Snapshot(
            now=self.now,
            synced=True,
            environment=self.environment,
            models=self.models,
            nodes=self.nodes,
            pods=self.pods,
            claims=self.claims,
            children={key: tuple(found.values()) for key, found in self.children.items()},
            endpoints=self.endpoints,
            priorities=self.priorities,
            answers=self.answers,
        )

    def decide(self, key: Key = KEY) -> Decision:
        """What the planner says now."""
        return plan(self.snapshot(), key)

    def manifests(self, key: Key = KEY) -> tuple[Manifest, ...]:
        """What would be applied now."""
        return render(self.snapshot(), self.decide(key))

    def step(self, key: Key = KEY) -> Decision:
        """Decide, apply, prune: one pass of the operator. Pods of a pruned Deployment go."""
        snapshot = self.snapshot()
        decision = plan(snapshot, key)
        if decision.untouched:
            return decision
        old, made = self.children.get(key, {}), {}
        for manifest in render(snapshot, decision):
            place = (manifest["kind"], manifest["metadata"]["name"])
            made[place] = self._applied(key, manifest, old.get(place))
        self.children[key] = made
        kept = {hash_of(child) for child in made.values() if child.ref.kind == DEPLOYMENT}
        self.pods = tuple(p for p in self.pods if p.model != key or p.revision in kept)
        self._route(key)
        return decision

    def start(self, hash_: str, *, key: Key = KEY, node: str = "laptop", gpus: int = 0) -> Cluster:
        """The pods of a revision's Deployment are made and bound, not ready."""
        deployment = self._deployment(key, hash_)
        others = tuple(p for p in self.pods if (p.model, p.revision) != (key, hash_))
        count = deployment.manifest["spec"]["replicas"]
        made = (
            serving_pod(key, hash_, number, node=node, gpus=gpus, created=self.now)
            for number in range(count)
        )
        self.pods = (*others, *made)
        return self

    def serve(self, hash_: str, *, key: Key = KEY, node: str = "laptop", gpus: int = 0) -> Cluster:
        """All replicas of a revision are ready, behind the Service, and have answered there."""
        self.start(hash_, key=key, node=node, gpus=gpus)
        mine = (key, hash_)
        self.pods = tuple(
            replace(p, ready=True) if (p.model, p.revision) == mine else p for p in self.pods
        )
        deployment = self._deployment(key, hash_)
        count = deployment.manifest["spec"]["replicas"]
        self.children[key][(DEPLOYMENT.kind, deployment.ref.name)] = replace(
            deployment, status={"replicas": count, "availableReplicas": count}
        )
        self._route(key)
        self.answers[key] = Answers(frozenset(p.uid for p in self.pods if p.ready))
        return self

    def later(self, **delta: float) -> Cluster:
        """Time passes."""
        self.now += timedelta(**delta)
        return self

    def deployed(self, key: Key = KEY) -> set[str]:
        """Hashes of the revisions that have a Deployment."""
        return self._hashes(key, DEPLOYMENT.kind)

    def remembered(self, key: Key = KEY) -> set[str]:
        """Hashes of the revisions that are stored."""
        return self._hashes(key, CONTROLLER_REVISION.kind)

    def _hashes(self, key: Key, kind: str) -> set[str]:
        found = self.children.get(key, {})
        return {hash_of(child) for (of, _), child in found.items() if of == kind}

    def _deployment(self, key: Key, hash_: str) -> ChildView:
        return self.children[key][(DEPLOYMENT.kind, f"{key.name}-{hash_}")]

    def _route(self, key: Key) -> None:
        self.endpoints[key] = tuple(p.name for p in self.pods if p.model == key and p.ready)

    def _applied(self, key: Key, manifest: Manifest, old: ChildView | None) -> ChildView:
        kind = next(kind for kind in CHILD_KINDS if kind.kind == manifest["kind"])
        name = manifest["metadata"]["name"]
        return ChildView(
            ref=ObjectRef(kind, key.namespace, name, f"uid-of-{name}", "1"),
            owner=key,
            owner_uid=self.models[key].metadata.uid,
            created=old.created if old is not None else self.now,
            generation=1,
            terminating=False,
            manifest=manifest,
            status=old.status if old is not None else {},
        )


def hash_of(child: ChildView) -> str:
    """The revision that a child belongs to."""
    found: str = child.manifest["metadata"]["labels"].get(LABEL_REVISION, "")
    return found


def serving_pod(
    key: Key, hash_: str, number: int, *, node: str, gpus: int, created: datetime
) -> PodView:
    """A pod of ours that has not generated a token yet."""
    name = f"{key.name}-{hash_}-{number}"
    return PodView(
        namespace=key.namespace,
        name=name,
        uid=f"uid-of-{name}",
        created=created,
        node=node,
        phase="Running",
        gpus=gpus,
        model=key,
        revision=hash_,
        ready=False,
        terminating=False,
    )


def with_entry(entry: CatalogEntry) -> Environment:
    """An installation whose catalog has another entry of that name."""
    return environment(catalog={**catalog.load_all(), entry.name: entry})
