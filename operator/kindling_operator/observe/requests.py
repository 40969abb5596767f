"""What a pod takes of its node while it is there, decoded without the rest of its body."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from kindling_operator.model.names import GPU_RESOURCE
from kindling_operator.model.objects import ENDED_PHASES
from kindling_operator.model.quantities import quantity_bytes, quantity_millis

Quantities = dict[str, str | int]


class Requests(NamedTuple):
    """Devices, CPU in millicores, memory and ephemeral storage in bytes."""

    gpus: int = 0
    cpu_millis: int = 0
    memory: int = 0
    ephemeral: int = 0


class Metadata(Struct):
    """The part of metadata that tells one object from another."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 (Kubernetes' spelling)


class _Resources(Struct):
    requests: Quantities | None = None
    limits: Quantities | None = None


class _Container(Struct):
    resources: _Resources | None = None
    restartPolicy: str = ""  # noqa: N815


class _Spec(Struct):
    nodeName: str = ""  # noqa: N815
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None  # noqa: N815
    overhead: Quantities | None = None
    resources: _Resources | None = None


class _Status(Struct):
    phase: str = ""


class PodBody(Struct):
    """A pod, as far as its share of a node goes."""

    metadata: Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ended(self) -> bool:
        """Whether it takes nothing any more."""
        return self.status.phase in ENDED_PHASES


def read_requests(body: Mapping[str, Any]) -> Requests:
    """The same of a body as kopf delivers it; nothing for one that cannot be read."""
    try:
        spec = msgspec.convert(body.get("spec"), _Spec)
    except msgspec.ValidationError:
        return _NOTHING
    return requests_of(PodBody(metadata=Metadata(), spec=spec))


def requests_of(pod: PodBody) -> Requests:
    """What the scheduler counts: the most at one time (KEP-753: sidecars stay, inits take turns),
    the pod's own requests in the place of its containers' (KEP-2837), and its overhead."""
    spec = pod.spec
    sidecars, peak = Requests(), Requests()
    for each in spec.initContainers or ():
        wanted = _requests(each.resources)
        if each.restartPolicy == "Always":
            sidecars = _sum((sidecars, wanted))
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum((sidecars, wanted)))
    running = _sum((sidecars, *(_requests(each.resources) for each in spec.containers or ())))
    found = _most(peak, running)
    own = spec.resources.requests if spec.resources is not None else None
    if own:
        whole = _amounts(own)
        cpu = whole.cpu_millis if "cpu" in own else found.cpu_millis
        memory = whole.memory if "memory" in own else found.memory
        found = found._replace(cpu_millis=cpu, memory=memory)
    return _sum((found, _amounts(spec.overhead))) if spec.overhead else found


def _requests(resources: _Resources | None) -> Requests:
    if resources is None:
        return _NOTHING
    found = _amounts(resources.requests) if resources.requests else _NOTHING
    # Extended resources cannot be overcommitted, so request and limit are equal where both stand.
    limit = resources.limits.get(GPU_RESOURCE) if resources.limits else None
    return found if limit is None else found._replace(gpus=_whole(limit))


def _amounts(quantities: Mapping[str, str | int]) -> Requests:
    return Requests(
        _whole(quantities.get(GPU_RESOURCE, 0)),
        _thousandths(quantities.get("cpu", 0)),
        _whole(quantities.get("memory", 0)),
        _whole(quantities.get("ephemeral-storage", 0)),
    )


def _sum(parts: Iterable[Requests]) -> Requests:
    return Requests(*map(sum, zip(*parts, strict=True)))


def _most(one: Requests, other: Requests) -> Requests:
    return Requests(*map(max, one, other))


@lru_cache(maxsize=4096)
def _whole(quantity: str | int) -> int:
    try:
        return quantity_bytes(quantity)
    except ValueError:
        return 0


@lru_cache(maxsize=4096)
def _thousandths(quantity: str | int) -> int:
    try:
        return quantity_millis(quantity)
    except ValueError:
        return 0


_NOTHING = Requests()
