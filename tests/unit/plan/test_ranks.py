"""What the pods of a replica are told: sizes to all alike, places to each."""

import pytest

from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.plan import GroupPlan
from kindling_operator.plan.argument import texts
from kindling_operator.plan.ranks import group_plan, layout_arguments


def group(layout: Layout) -> GroupPlan:
    found = group_plan(layout)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("layout", "arguments"),
    [
        (ONE_GPU, ()),
        (Layout(tensor=8), ("--tensor-parallel-size=8",)),
        (
            Layout(tensor=8, pipeline=2, nodes=2),
            ("--tensor-parallel-size=8", "--pipeline-parallel-size=2"),
        ),
        (
            Layout(tensor=8, data=2, expert=True, nodes=2),
            (
                "--tensor-parallel-size=8",
                "--data-parallel-size=2",
                "--enable-expert-parallel",
                "--all2all-backend=allgather_reducescatter",
            ),
        ),
        (
            Layout(tensor=4, expert=True),
            ("--tensor-parallel-size=4", "--enable-expert-parallel"),
        ),
    ],
)
def test_sizes(layout: Layout, arguments: tuple[str, ...]) -> None:
    """Trap T10: of the all2all backends only one runs with data-parallel ranks."""
    assert texts(layout_arguments(layout)) == arguments


def test_one_node_is_no_group() -> None:
    assert group_plan(Layout(tensor=8)) is None


def test_stages_on_two_nodes_are_one_engine_with_a_headless_follower() -> None:
    found = group(Layout(tensor=8, pipeline=2, nodes=2))

    assert found.rank_arguments == (
        ("--nnodes=2", "--node-rank=0", "--master-addr={leader}", "--master-port=29501"),
        (
            "--nnodes=2",
            "--node-rank=1",
            "--master-addr={leader}",
            "--master-port=29501",
            "--headless",
        ),
    )
    assert found.serving == (True, False)


def test_data_ranks_on_two_nodes_answer_on_both() -> None:
    found = group(Layout(tensor=4, data=4, expert=True, nodes=2))

    assert found.rank_arguments == tuple(
        (
            "--data-parallel-size-local=2",
            f"--data-parallel-start-rank={first}",
            "--data-parallel-address={leader}",
            "--data-parallel-rpc-port=29550",
            "--data-parallel-hybrid-lb",
        )
        for first in (0, 2)
    )
    assert found.serving == (True, True)
    assert found.size == 2
