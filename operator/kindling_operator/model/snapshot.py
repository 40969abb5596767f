"""Everything one decision may look at, at one moment, immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kindling_operator.model.architecture import CatalogEntry, Device
from kindling_operator.model.gpu import GpuFacts, SpeedFacts
from kindling_operator.model.names import Key, Kind
from kindling_operator.model.objects import (
    ChildView,
    ClaimView,
    DeviceHold,
    NodeUse,
    NodeView,
    PodView,
)
from kindling_operator.model.parse import Invalid, ParsedModel
from kindling_operator.model.pods import Pods
from kindling_operator.model.reports import Cut, Report
from kindling_operator.model.runtime import RuntimeFacts


@dataclass(frozen=True, slots=True)
class Environment:
    """What the operator was installed with: chart values that a decision depends on.

    Images are complete references (by digest where the chart gives one); `catalog` holds the
    models that this release knows, by name (catalog.load_all()), and `runtimes` what is known of
    runtime images, by name (catalog.runtimes.load_all()): one without digests for each device.
    `gpus` (catalog.gpus.load_all(), by product label) and `speed` (catalog.gpus.load_speed()) are
    the numbers of the speed model. Without `prove_endpoint` a pod among the Service's endpoints
    counts as one that has answered: for an operator that cannot reach the pods. `cache_claim` and
    `cache_max_bytes` (a quantity) are those of models that name none, "" for none.
    """

    cuda_image: str
    cpu_image: str
    catalog: Mapping[str, CatalogEntry]
    runtimes: Mapping[str, RuntimeFacts]
    gpus: Mapping[str, GpuFacts] = field(default_factory=dict)
    speed: SpeedFacts = field(default_factory=SpeedFacts)
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    name_foreign_holders: bool = False
    development_store: bool = False
    prove_endpoint: bool = True
    cache_claim: str = ""
    cache_max_bytes: str = ""

    def runtime(self, image: str, device: Device) -> RuntimeFacts:
        """The facts of an image's digest, else those of this release's own image."""
        return self._described(image, device) or self.own_runtime(device)

    def own_runtime(self, device: Device) -> RuntimeFacts:
        """The facts of this release's own image."""
        for facts in self.runtimes.values():
            if facts.device is device and not facts.digests:
                return facts
        raise LookupError(f"the installation has no facts of its own {device.value} image")

    def describes(self, image: str, device: Device) -> bool:
        """Whether an image is this release's own or has a digest that somebody described."""
        own = self.cpu_image if device is Device.CPU else self.cuda_image
        return image == own or self._described(image, device) is not None

    def _described(self, image: str, device: Device) -> RuntimeFacts | None:
        digest = image.rpartition("@")[2]
        for facts in self.runtimes.values():
            if facts.device is device and digest in facts.digests:
                return facts
        return None


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of asking through a model's Service: uids of the pods that are known to have
    answered, and why more is not known, "" while nothing stands in the way."""

    pods: frozenset[str] = frozenset()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent look at the cluster; sorted, so equal clusters give equal snapshots.

    `children` holds, per model, every object of CHILD_KINDS that carries its labels;
    `endpoints` the names of the pods that its Service sends traffic to.
    `priorities` is the value of each PriorityClass by name: models with a higher one plan first.
    `used` is, by node, what the pods take that are not in `pods`: those without GPUs that are not
    ours. `device_holds` are GPUs that ResourceClaims have.
    `answers` tells of the models that were asked through their Service during a rollout; `reports`
    is what pods say of themselves, by uid; `cuts` the pods that cut requests when they left and of
    which nobody was told yet.
    `absent` are the optional kinds (names.OPTIONAL_KINDS) that the cluster lacks.
    `synced` is False until every watch has delivered its first list: nothing is deleted then.
    """

    now: datetime
    synced: bool
    environment: Environment
    models: Mapping[Key, ParsedModel | Invalid]
    nodes: tuple[NodeView, ...] = ()
    pods: tuple[PodView, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    children: Mapping[Key, tuple[ChildView, ...]] = field(default_factory=dict)
    endpoints: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, NodeUse] = field(default_factory=dict)
    device_holds: tuple[DeviceHold, ...] = ()
    absent: frozenset[Kind] = frozenset()
    answers: Mapping[Key, Answers] = field(default_factory=dict)
    reports: Mapping[str, Report] = field(default_factory=dict)
    cuts: Mapping[Key, tuple[Cut, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.pods, Pods):
            object.__setattr__(self, "pods", Pods(self.pods))

    def pods_of(self, key: Key) -> tuple[PodView, ...]:
        """Serving pods of one model, by name."""
        assert isinstance(self.pods, Pods)
        return self.pods.by_model.get(key, ())

    def claim(self, namespace: str, name: str) -> ClaimView | None:
        """The claim of that name, or None."""
        return next((c for c in self.claims if (c.namespace, c.name) == (namespace, name)), None)
