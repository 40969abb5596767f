"""Layers of a pipeline stage, and where the layers of a group are."""

import msgspec
import pytest
from tests.support.builders import tiny_architecture

from kindling_operator import catalog
from kindling_operator.model.architecture import Architecture
from kindling_operator.plan.stages import dense_layers, positions, stages

FLINT = catalog.load("flint").architecture
INKLING = catalog.load("inkling").architecture


@pytest.mark.parametrize(
    ("layers", "pipeline", "sizes"),
    [
        (66, 1, [66]),
        (66, 2, [33, 33]),
        (49, 2, [25, 24]),
        (49, 4, [12, 12, 13, 12]),
        (50, 4, [12, 13, 13, 12]),
        (51, 4, [13, 13, 13, 12]),
        (2, 3, [1, 1, 0]),
    ],
)
def test_layers_left_over_go_before_the_last_stage(
    layers: int, pipeline: int, sizes: list[int]
) -> None:
    found = stages(layers, pipeline)

    assert [len(stage) for stage in found] == sizes
    assert [layer for stage in found for layer in stage] == list(range(layers))


def test_a_group_that_says_nothing_has_the_layers_that_are_left() -> None:
    where = positions(INKLING)

    assert where["full_attention"] == tuple(range(5, 66, 6))
    assert set(where["sliding_window"]) == set(range(66)) - set(where["full_attention"])
    assert where["short_conv"] == tuple(range(66))


def grouped(**layers: int) -> Architecture:
    attention = [
        {"name": name, "kind": "Full", "layers": count, "kvHeads": 1, "headSize": 64}
        for name, count in layers.items()
    ]
    wire = tiny_architecture(layers=sum(layers.values()), attention=attention)
    return msgspec.convert(wire, Architecture)


def test_groups_that_say_nothing_are_spread_evenly() -> None:
    where = positions(grouped(few=2, many=10))

    assert sorted(where["few"] + where["many"]) == list(range(12))
    assert [sum(1 for layer in where["few"] if layer in stage) for stage in stages(12, 2)] == [1, 1]


def test_the_first_layers_are_the_dense_ones() -> None:
    assert dense_layers(INKLING) == dense_layers(FLINT) == (0, 1)
    assert dense_layers(grouped(only=3)) == (0, 1, 2)
