"""Which ways to spread a replica are considered at all."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.support.builders import gpu_node
from tests.support.candidates import subject, with_architecture

from kindling_operator.model.layout import Layout
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.layouts import Extent, extent_of, layouts
from kindling_operator.plan.pins import pins_text


def pool(*gpus: int, clique: str = "", product: str = "NVIDIA-H200") -> Extent:
    nodes = (
        gpu_node(f"gpu-{number}", product, gpus=count, clique=clique)
        for number, count in enumerate(gpus)
    )
    (found,) = fleet_of(nodes).pools(None)
    return extent_of(found)


def names(model: str, nodes: Extent, *, spare: int = 0, **placement: Any) -> list[str]:
    found = layouts(subject(model, placement=placement), replace(nodes, spare=spare))
    return [f"{layout.name} / {layout.nodes}" for layout in found]


def test_one_node_has_tensor_ranks_only() -> None:
    assert names("inkling", pool(8)) == ["TP1 / 1", "TP2 / 1", "TP4 / 1", "TP8 / 1"]


def test_tensor_ranks_stay_in_the_node() -> None:
    assert names("inkling", pool(4)) == ["TP1 / 1", "TP2 / 1", "TP4 / 1"]


def test_tensor_ranks_span_nodes_of_one_nvlink_domain() -> None:
    """An NVL72 rack has 18 nodes of 4 GPUs; T22."""
    found = names("inkling", pool(4, 4, 4, 4, clique="rack-1"))

    assert found[:4] == ["TP1 / 1", "TP2 / 1", "TP4 / 1", "TP8 / 2"]
    assert "TP8 / 1" not in found


def test_tensor_ranks_do_not_span_two_domains() -> None:
    assert not [name for name in names("inkling", pool(4, 4)) if name.startswith("TP8")]


def test_stages_and_data_ranks_take_further_nodes() -> None:
    found = names("inkling", pool(8, 8))

    assert "TP8 PP2 / 2" in found
    assert "TP8 DP2 EP16 / 2" in found


def test_a_dense_model_gains_nothing_from_data_ranks() -> None:
    flint = subject("flint")
    dense = with_architecture(flint, structs.replace(flint.architecture, experts=None))

    assert all(layout.data == 1 for layout in layouts(dense, pool(8, 8)))


def test_stages_and_data_ranks_come_only_beyond_what_tensor_ranks_reach() -> None:
    found = layouts(subject("inkling"), pool(8, 8, 8, 8))

    assert all(layout.gpus > 8 for layout in found if layout.pipeline * layout.data > 1)


def test_fewest_gpus_come_first() -> None:
    found = layouts(subject("flint"), pool(8, 8, 8))

    assert [layout.gpus for layout in found] == sorted(layout.gpus for layout in found)


def test_a_replica_takes_the_fewest_nodes() -> None:
    """Four nodes of 4 and one of 8: eight GPUs are taken in one node."""
    assert "TP8 / 1" in names("inkling", pool(4, 4, 4, 4, 8))


def test_pins_are_the_only_sizes() -> None:
    found = names("inkling", pool(8, 8), parallelism={"tensor": 8, "data": 2, "expert": True})

    assert found == ["TP8 DP2 EP16 / 2"]


def test_one_pin_leaves_the_others_to_choose() -> None:
    assert names("inkling", pool(8), parallelism={"tensor": 4}) == [
        "TP4 / 1",
        "TP4 PP2 / 1",
        "TP4 DP2 EP8 / 1",
    ]
    assert names("inkling", pool(8), parallelism={"pipeline": 2}) == [
        "TP1 PP2 / 1",
        "TP2 PP2 / 1",
        "TP4 PP2 / 1",
    ]
    one_stage = names("inkling", pool(8), parallelism={"pipeline": 1})
    assert one_stage == ["TP1 / 1", "TP2 / 1", "TP4 / 1", "TP8 / 1"]
    no_spread = names("inkling", pool(8, 8), parallelism={"data": 1, "expert": False})
    assert no_spread[:4] == one_stage
    assert {"TP8 PP2 / 2", "TP4 PP3 / 2"} & set(no_spread) == {"TP8 PP2 / 2"}


def test_a_pin_beyond_the_nodes_leaves_nothing() -> None:
    assert names("inkling", pool(8), parallelism={"tensor": 16}) == []


def test_spare_nodes_show_what_more_nodes_would_allow() -> None:
    assert "TP8 PP2 / 2" not in names("inkling", pool(8))
    assert "TP8 PP2 / 2" in names("inkling", pool(8), spare=1)


def test_no_replica_takes_more_gpus_than_the_user_allows() -> None:
    assert names("inkling", pool(8, 8), maxGpusPerReplica=4) == ["TP1 / 1", "TP2 / 1", "TP4 / 1"]


@pytest.mark.parametrize(
    ("pins", "text"),
    [
        ({}, ""),
        ({"tensor": 8}, "spec.placement.parallelism {tensor: 8}"),
        (
            {"tensor": 4, "expert": False},
            "spec.placement.parallelism {tensor: 4, expert: false}",
        ),
    ],
)
def test_pins_are_shown_as_written(pins: dict[str, Any], text: str) -> None:
    assert pins_text(subject("inkling", placement={"parallelism": pins})) == text


def test_every_layout_fills_its_nodes_evenly() -> None:
    found = layouts(subject("inkling"), pool(*[8] * 16))

    assert found
    assert all(layout.gpus_per_node * layout.nodes == layout.gpus for layout in found)
    assert all(layout.gpus_per_node % layout.tensor == 0 for layout in found)
    assert Layout(tensor=8, data=16, expert=True, nodes=16) in found
