"""Where a replica fits, of what a node has and others leave."""

from dataclasses import replace

import pytest
from tests.support.builders import GIB, cpu_node, foreign_pod, gpu_node

from kindling_operator.model.names import Key
from kindling_operator.model.objects import DeviceHold, NodeUse, NodeView
from kindling_operator.plan.devices import GpuClass, gpu_class
from kindling_operator.plan.fleet import Fleet, Pool, fleet_of
from kindling_operator.plan.room import Demand, Room, room_of

MINE = Key("ml", "a")
H200 = gpu_class(gpu_node("x"))


def pool(fleet: Fleet, gpu: GpuClass | None = H200) -> Pool:
    """The nodes of one class."""
    return next(each for each in fleet.pools(None) if each.gpu == gpu)


def placed(room: Room, demand: Demand) -> tuple[str, ...] | None:
    return room.place(demand, pool(room.fleet, demand.gpu))


def replicas(room: Room, demand: Demand) -> int:
    """How many fit beside each other; they stay."""
    count = 0
    while (names := placed(room, demand)) is not None:
        room.take(demand.per_node, names, of=Key("", ""))
        count += 1
    return count


def wanted(gpus: int, **more: object) -> Demand:
    return replace(Demand(H200, gpus_per_node=gpus), **more)  # type: ignore[arg-type]


def test_the_fullest_node_that_fits_is_taken_ties_by_name() -> None:
    fleet = fleet_of([gpu_node(name) for name in ("c", "b", "a")])
    room = room_of(fleet, [foreign_pod("b", gpus=4)])

    assert placed(room, wanted(2)) == ("b",)
    assert placed(room, wanted(5)) == ("a",)
    assert placed(room, wanted(9)) is None


TOO_SMALL = {
    "CPU": {"cpu_millis": 1000},
    "memory": {"memory": GIB},
    "ephemeral storage": {"ephemeral": GIB},
    "places for pods": {"pods": 1},
}


@pytest.mark.parametrize("less", TOO_SMALL.values(), ids=TOO_SMALL.keys())
def test_a_node_with_gpus_that_lacks_anything_else_has_no_room(less: dict[str, int]) -> None:
    """Other pods without GPUs take these: no list of GPU pods shows it."""
    fleet = fleet_of([gpu_node("a", ephemeral=64 * GIB, pods=110)])
    demand = wanted(1, cpu_millis=4000, memory=18 * GIB, ephemeral=8 * GIB)
    assert placed(room_of(fleet, []), demand) == ("a",)
    whole = {"cpu_millis": 192_000, "memory": 2048 * GIB, "ephemeral": 64 * GIB, "pods": 110}
    (what,) = less
    left = 0 if what == "pods" else less[what]

    used = {"a": replace(NodeUse(), **{what: whole[what] - left})}

    assert placed(room_of(fleet, [], used=used), demand) is None


def test_what_a_node_does_not_state_is_no_limit() -> None:
    fleet = fleet_of([gpu_node("a", cpu_millis=0, memory=0)])

    assert placed(room_of(fleet, []), wanted(8, cpu_millis=99, ephemeral=99)) == ("a",)


def test_a_claim_of_dynamic_resource_allocation_holds_its_gpus() -> None:
    room = room_of(
        fleet_of([gpu_node("a", gpus=2)]), [], device_holds=[DeviceHold("other", "job", "a", 2)]
    )

    assert placed(room, wanted(1)) is None
    assert room.held["a"] == {Key("other", "job"): 2}


def test_pods_on_nodes_that_vanished_and_pods_that_ended_hold_nothing() -> None:
    ended = replace(foreign_pod("a", gpus=8), phase="Failed")
    room = room_of(fleet_of([gpu_node("a")]), [ended, foreign_pod("gone", gpus=8)])

    assert room.free == {"a": 8}


def test_what_is_taken_is_kept_free_for_its_holder() -> None:
    room, less = (room_of(fleet_of([gpu_node("a")]), []) for _ in range(2))
    less.take(wanted(6).per_node, ("a",), of=MINE)

    assert (room.free["a"], less.free["a"]) == (8, 2)
    assert less.reserved == {"a": {MINE: 6}}
    assert replicas(room, wanted(3)) == 2
    assert replicas(less, wanted(3)) == 0


def test_the_room_without_pods_is_the_same_again_afterwards() -> None:
    pods = [replace(foreign_pod("a", gpus=8), cpu_millis=1000)]
    room = room_of(fleet_of([gpu_node("a")]), pods)
    assert placed(room, wanted(1)) is None

    with room.without(pods):
        assert placed(room, wanted(8)) == ("a",)

    assert placed(room, wanted(1)) is None
    assert room.left("a").cpu_millis == 191_000


def nvl72(*cliques: str) -> list[NodeView]:
    return [gpu_node(f"n{i}", gpus=4, clique=clique) for i, clique in enumerate(cliques)]


def test_a_replica_of_several_nodes_stays_in_one_nvlink_domain_where_it_must() -> None:
    fleet = fleet_of(nvl72("x", "x", "y", "y", "y", ""))
    room = room_of(fleet, [foreign_pod("n1", gpus=1)])
    three = wanted(4, nodes=3)

    assert placed(room, replace(three, one_clique=True)) == ("n2", "n3", "n4")
    assert placed(room, wanted(4, nodes=4, one_clique=True)) is None
    assert placed(room, wanted(4, nodes=5)) == ("n0", "n2", "n3", "n4", "n5")


def test_nodes_without_a_clique_are_no_domain_together() -> None:
    room = room_of(fleet_of(nvl72("", "")), [])

    assert placed(room, wanted(4, nodes=2, one_clique=True)) is None


def test_several_nodes_are_of_one_zone_where_one_has_them_all() -> None:
    zones = {"a": "east", "b": "west", "c": "west"}
    fleet = fleet_of([gpu_node(name, zone=zone) for name, zone in zones.items()])
    room = room_of(fleet, [foreign_pod("a", gpus=0)])

    assert placed(room, wanted(8, nodes=2)) == ("b", "c")
    assert placed(room, wanted(8, nodes=3)) == ("a", "b", "c")


def test_work_on_cpu_goes_to_nodes_without_gpus_first() -> None:
    fleet = fleet_of([gpu_node("a"), cpu_node("b"), cpu_node("c", memory=8 * GIB)])
    room = room_of(fleet, [])
    usable = fleet.usable(None, gpu=False)

    def on_cpu(memory: int) -> tuple[str, ...] | None:
        return room.place(Demand(None, cpu_millis=500, memory=memory), usable)

    assert on_cpu(4 * GIB) == ("c",)
    assert on_cpu(16 * GIB) == ("b",)
    assert on_cpu(64 * GIB) == ("a",)


def test_models_that_select_alike_share_one_answer() -> None:
    fleet = fleet_of([gpu_node("a"), gpu_node("b", "NVIDIA-B200"), gpu_node("c", ready=False)])

    assert fleet.pools(None) is fleet.pools(None)
    assert [each.gpu.product for each in fleet.pools(None) if each.gpu] == [
        "NVIDIA-B200",
        "NVIDIA-H200",
    ]
    assert pool(fleet).names == {"a"}


def test_a_pool_tells_how_large_a_replica_may_be() -> None:
    nodes = [*nvl72("x", "x", "y", "", ""), gpu_node("big", gpus=8)]
    found = pool(fleet_of(nodes))

    assert (found.largest, found.nodes_with(4), found.nodes_with(8)) == (8, 6, 1)
    assert (found.clique_with(4), found.clique_with(8)) == (2, 1)
