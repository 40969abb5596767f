"""Replicas go only to nodes that the plan holds on; GPUs of one product are one kind otherwise."""

from dataclasses import replace

import pytest
from msgspec import structs
from tests.support.builders import KEY, Cluster, catalog_spec, foreign_pod, gpu_node
from tests.support.groups import GroupCluster
from tests.support.groups import nodes as pair_nodes
from tests.support.groups import spec as pair_spec

from kindling_operator.model.conditions import ConditionType
from kindling_operator.model.objects import GpuShare, NodeView
from kindling_operator.model.parse import ParsedModel
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.kinds import asked
from kindling_operator.plan.placement import Placed, placements
from kindling_operator.plan.subject import subject_of

TWO = {**catalog_spec("flint"), "replicas": 2}
H200 = gpu_node("fits", gpus=1, driver="580.65.06")


def placed(*nodes: NodeView) -> Placed:
    return placements(Cluster(nodes=nodes).apply(TWO).snapshot()).of(KEY)


UNFIT = {
    "driver": gpu_node("unfit", driver="535.104.05"),
    "memory": gpu_node("unfit", gpu_memory=20_000 << 20),
    "cpu": gpu_node("unfit", architecture="s390x"),
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_no_replica_is_booked_where_its_plan_does_not_hold(unfit: NodeView) -> None:
    found = placed(H200, unfit)

    assert (found.room_now, found.nodes) == (1, (("fits",),))
    assert found.shortfall is not None
    assert "best node fits has 0 of 1 free" in found.shortfall.message


def test_a_replica_of_several_gpus_is_not_booked_on_slices() -> None:
    b200 = gpu_node("whole", "NVIDIA-B200", gpus=8)
    sliced = gpu_node("sliced", "NVIDIA-B200", gpus=16, share=GpuShare.SLICE)
    spec = {**catalog_spec("inkling"), "replicas": 3}
    found = placements(Cluster(nodes=(b200, sliced)).apply(spec).snapshot()).of(KEY)

    assert found.nodes
    assert {name for names in found.nodes for name in names} == {"whole"}


def test_replicas_spread_over_drivers_that_all_do() -> None:
    found = placed(H200, gpu_node("newer", gpus=1, driver="590.1"), gpu_node("silent", gpus=1))

    assert found.room_now == 2
    assert found.shortfall is None


def test_a_kind_is_sized_by_its_smallest_gpu() -> None:
    mib = H200.gpu_memory >> 20
    smaller = gpu_node("smaller", gpu_memory=(mib - 700) << 20)
    current = Cluster(nodes=(H200, smaller)).apply(TWO).decide().current

    assert current is not None
    assert current.plan.gpu is not None
    assert current.plan.gpu.memory == (mib - 700) << 20


def test_a_plan_of_an_older_release_demands_no_memory_and_keeps_its_nodes() -> None:
    cluster = Cluster(nodes=(H200, gpu_node("small", gpu_memory=20_000 << 20))).apply(TWO)
    snapshot = cluster.snapshot()
    model = snapshot.models[KEY]
    assert isinstance(model, ParsedModel)
    current = cluster.decide().current
    assert current is not None
    assert current.plan.gpu is not None
    subject = subject_of(model, snapshot.environment)
    assert subject is not None
    old = structs.replace(
        current.plan,
        gpu=structs.replace(current.plan.gpu, memory=0),
        pod=structs.replace(current.plan.pod, node_requirements=()),
    )

    _, pool = asked(subject, old, fleet_of(snapshot.nodes))

    assert pool.names == {"fits", "small"}


def test_a_group_spans_nodes_of_different_drivers() -> None:
    one, other = pair_nodes(2)
    mib = one.gpu_memory >> 20
    drivers = (
        replace(one, driver="580.65.06"),
        replace(other, driver="590.1", gpu_memory=(mib - 100) << 20),
    )
    cluster = GroupCluster(nodes=drivers).apply(pair_spec())

    decision = cluster.step()

    assert decision.verdict(ConditionType.SCHEDULED) is None
    assert len(cluster.groups()) == 1


def test_a_model_waits_for_the_nodes_that_do_and_not_for_others() -> None:
    cluster = Cluster(nodes=(H200, UNFIT["driver"]), pods=(foreign_pod("fits", gpus=1),))

    waits = cluster.apply(TWO).decide().verdict(ConditionType.SCHEDULED)

    assert waits is not None
    assert "best node fits has 0 of 1 free" in waits.message
