"""Which nodes are one kind for a model, and which of them a plan that is made holds on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kindling_operator.model.api_placement import Placement
from kindling_operator.model.architecture import Device
from kindling_operator.model.objects import GpuShare
from kindling_operator.model.plan import EnginePlan, GpuPlan, NodeRequirement
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.devices import GpuClass
from kindling_operator.plan.fleet import Fleet, Pool, pool_of
from kindling_operator.plan.requirements import all_meet, meets
from kindling_operator.plan.room import Demand
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.versions import is_too_old

_SAME_PERCENT = 1
"""Memory of one product differs by less than this between drivers (reserved pages, ECC)."""


def kinds(subject: Subject, fleet: Fleet) -> tuple[Pool, ...]:
    """The usable nodes by what a plan can tell apart.

    GPUs of one product are one kind, sized by the smallest, whatever the driver above the floor of
    the model's image: a group may span them.
    """
    floor = runtime_for(subject, Device.GPU).driver
    pools = fleet.pools(subject.spec.placement)
    question = "kinds", tuple((pool.gpu, pool.names) for pool in pools), floor
    return fleet.answer(question, lambda: tuple(_merged(pools, floor)))


def asked(subject: Subject, plan: EnginePlan, fleet: Fleet) -> tuple[Demand, Pool]:
    """What one replica of a plan asks for, and the nodes that it holds on; they may be none."""
    pod, gpu = plan.pod, plan.gpu
    placement = subject.spec.placement
    if gpu is None:
        pool, one = fleet.usable(placement, gpu=False), Demand(None)
    else:
        floor = subject.environment.runtime(plan.image, Device.GPU).driver
        pool = _holding(gpu, pod.node_requirements, floor, fleet, placement)
        one = Demand(pool.gpu, gpus_per_node=gpu.count, nodes=gpu.nodes, one_clique=gpu.one_clique)
    whole = replace(one, cpu_millis=pod.cpu_millis, memory=pod.memory, ephemeral=pod.ephemeral)
    return whole, pool


def _holding(
    gpu: GpuPlan,
    requirements: tuple[NodeRequirement, ...],
    floor: str,
    fleet: Fleet,
    placement: Placement | None,
) -> Pool:
    """The nodes that a plan for these GPUs holds on, as one kind."""
    pools = [
        pool
        for pool in fleet.pools(placement)
        if pool.gpu is not None and _holds(gpu, floor, pool.gpu)
    ]
    question = "holding", requirements, tuple((pool.gpu, pool.names) for pool in pools)
    return fleet.answer(question, lambda: _meeting(pools, requirements))


def _meeting(pools: list[Pool], requirements: tuple[NodeRequirement, ...]) -> Pool:
    """The nodes of these pools that the scheduler takes for the plan."""
    met = [
        pool
        if all_meet(pool, requirements)
        else pool_of((n for n in pool.nodes if meets(n.labels, requirements)), pool.gpu)
        for pool in pools
    ]
    left = [pool for pool in met if pool.nodes]
    return _union(left) if left else pool_of(())


def _holds(gpu: GpuPlan, floor: str, found: GpuClass) -> bool:
    """Whether what was counted for the plan is there; an older plan does not say how much."""
    return (
        found.product == gpu.product
        and found.architecture == gpu.architecture
        and found.memory >= gpu.memory
        and not is_too_old(found.driver, floor)
        and found.share is not GpuShare.TIME
        # No collective runs between slices.
        and not (found.share is GpuShare.SLICE and gpu.count * gpu.nodes > 1)
    )


def _merged(pools: Iterable[Pool], floor: str) -> Iterator[Pool]:
    alike: dict[tuple[object, ...], list[Pool]] = {}
    for pool in pools:
        gpu = pool.gpu
        assert gpu is not None
        old = is_too_old(gpu.driver, floor)
        kind = gpu.product, gpu.capability, gpu.architecture, gpu.share, old
        alike.setdefault(kind, []).append(pool)
    for each in alike.values():
        left = each
        while left:
            least = min(pool.gpu.memory for pool in left if pool.gpu is not None)
            most = least * (100 + _SAME_PERCENT) // 100
            yield _union([p for p in left if p.gpu is not None and p.gpu.memory <= most])
            left = [p for p in left if p.gpu is not None and p.gpu.memory > most]


def _union(pools: list[Pool]) -> Pool:
    """All their nodes, of the smallest GPU and the oldest driver that any says it has."""
    if len(pools) == 1:
        return pools[0]
    gpus = [pool.gpu for pool in pools if pool.gpu is not None]
    gpu = replace(
        min(gpus),
        memory=min(gpu.memory for gpu in gpus),
        driver=min((gpu.driver for gpu in gpus if gpu.driver), default=0),
    )
    nodes = (node for pool in pools for node in pool.nodes)
    return pool_of(sorted(nodes, key=lambda node: node.name), gpu)
