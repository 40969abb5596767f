"""What a pod demands of its node, so that the scheduler takes only nodes that the plan holds on.

A demand is a node selector requirement of Kubernetes; the planner judges nodes by the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import structs

from kindling_operator.model.names import (
    LABEL_ARCHITECTURE,
    LABEL_DRIVER,
    LABEL_DRIVER_OLD,
    LABEL_GKE_PARTITION,
    LABEL_GKE_SHARING,
    LABEL_GPU_MEMORY,
    LABEL_GPU_REPLICAS,
    LABEL_GPU_SHARING,
)
from kindling_operator.model.objects import GpuShare
from kindling_operator.model.plan import NodeOperator, NodeRequirement
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.fleet import TOLD, Pool, Said
from kindling_operator.plan.versions import branch_of


def _demands(gpu: GpuClass, floor: str) -> Iterator[NodeRequirement]:
    """What a plan for a class of GPU and the driver floor of its image would have of a node."""
    # A plan is judged by the image for one CPU architecture.
    if gpu.architecture:
        yield NodeRequirement(LABEL_ARCHITECTURE, NodeOperator.IN, (gpu.architecture,))
    # Nodes of one product may have less memory than the plan was sized for.
    yield NodeRequirement(LABEL_GPU_MEMORY, NodeOperator.GT, (str((gpu.memory >> 20) - 1),))
    # CUDA's floor is a branch of the driver.
    for label in (LABEL_DRIVER, LABEL_DRIVER_OLD):
        if least := branch_of(floor):
            yield NodeRequirement(label, NodeOperator.GT, (str(least - 1),))
    # A slice is none of the GPUs that a plan for whole ones counts on.
    if gpu.share is GpuShare.WHOLE:
        yield NodeRequirement(LABEL_GKE_PARTITION, NodeOperator.DOES_NOT_EXIST)
    # A time share of a GPU keeps the product's name where the device plugin is told so.
    yield NodeRequirement(LABEL_GPU_REPLICAS, NodeOperator.LT, ("2",))
    yield NodeRequirement(LABEL_GPU_SHARING, NodeOperator.NOT_IN, ("mps", "time-slicing"))
    yield NodeRequirement(LABEL_GKE_SHARING, NodeOperator.NOT_IN, ("mps", "time-sharing"))


def node_requirements(gpu: GpuClass, floor: str, pool: Pool) -> tuple[NodeRequirement, ...]:
    """The demands that every node of a pool meets. Of a label that some nodes do not carry it is
    asked only that those which do meet it.

    `floor` is the least driver of the image, "" if none.
    """
    return _met(gpu, floor, pool.says)


@lru_cache(maxsize=1024)
def _met(gpu: GpuClass, floor: str, said: frozenset[Said]) -> tuple[NodeRequirement, ...]:
    """Every plan on a kind of node asks for it."""
    says = [_labels(each) for each in said]
    found = {
        demand.key: form for demand in _demands(gpu, floor) for form in _form_met(demand, says)
    }
    # One of the driver's labels is enough where every node carries it.
    drivers = [found[key] for key in _DRIVERS if key in found]
    if not all(each.or_absent for each in drivers):
        found = {k: form for k, form in found.items() if not (k in _DRIVERS and form.or_absent)}
    return tuple(found.values())


def _form_met(
    demand: NodeRequirement, says: Sequence[Mapping[str, str]]
) -> Iterator[NodeRequirement]:
    """The demand as all nodes meet it: as it is, else for those that carry the label."""
    if all(_meets(labels, demand) for labels in says):
        yield demand
        return
    # A node that comes later may carry the driver's label though none does now.
    carried = demand.key in _DRIVERS or any(demand.key in labels for labels in says)
    form = structs.replace(demand, or_absent=True)
    if carried and all(_meets(labels, form) for labels in says):
        yield form


def all_meet(pool: Pool, requirements: Iterable[NodeRequirement]) -> bool:
    """Whether every node of a pool may be taken; False if only looking at each can tell."""
    asked = tuple(requirements)
    return all(each.key in TOLD for each in asked) and all(
        meets(_labels(said), asked) for said in pool.says
    )


def _labels(said: Said) -> dict[str, str]:
    """The labels that a node has."""
    return {key: value for key, value in said if value}


def meets(labels: Mapping[str, str], requirements: Iterable[NodeRequirement]) -> bool:
    """Whether a node may be taken, as the scheduler judges it."""
    return all(_meets(labels, each) for each in requirements)


def _meets(labels: Mapping[str, str], requirement: NodeRequirement) -> bool:
    """Kubernetes' own rule (component-helpers, scheduling/corev1/nodeaffinity)."""
    found = labels.get(requirement.key)
    if found is None and requirement.or_absent:
        return True
    if requirement.operator is NodeOperator.DOES_NOT_EXIST:
        return found is None
    if requirement.operator is NodeOperator.NOT_IN:
        return found not in requirement.values
    if requirement.operator is NodeOperator.IN:
        return found in requirement.values
    if found is None or not found.isdecimal() or len(found) > _INT64_DIGITS:
        return False
    bound = int(requirement.values[0])
    return int(found) > bound if requirement.operator is NodeOperator.GT else int(found) < bound


_DRIVERS: Final = (LABEL_DRIVER, LABEL_DRIVER_OLD)
_INT64_DIGITS: Final = 18
"""What is longer is no number to the scheduler either."""
