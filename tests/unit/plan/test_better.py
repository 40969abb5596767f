"""What a better plan would change, told layout and all; estimates alone make no plan better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs
from tests.support.builders import Cluster, catalog_spec, gpu_node

from kindling_operator.model.layout import Layout
from kindling_operator.model.names import Key
from kindling_operator.model.plan import EnginePlan
from kindling_operator.plan.better import better_plan, layout_of

KEY = Key("ml", "inkling")
HOPPER = (gpu_node("h-0"), gpu_node("h-1"))


def planned(*nodes: Any) -> EnginePlan:
    decision = Cluster(nodes=nodes).apply(catalog_spec("inkling"), key=KEY).decide(KEY)
    assert decision.current is not None, decision.verdicts
    return decision.current.plan


def test_a_smaller_layout_is_told_in_full() -> None:
    old, new = planned(*HOPPER), planned(*HOPPER, gpu_node("b-0", "NVIDIA-B200"))
    better = better_plan(KEY, old, new)

    assert better is not None
    assert better.message == (
        "A plan made now would have checkpoint NVFP4 instead of BF16, GPU NVIDIA-B200 instead of"
        " NVIDIA-H200, GPUs 4 in 1 node instead of 16 in 2 nodes, layout TP4 instead of TP8 DP2"
        f" EP16, drafts 7 instead of 8, context {new.context_length} instead of"
        f" {old.context_length}: run `kindling replan im/inkling -n ml` to take it, which replaces"
        " the replicas."
    )


def test_the_layout_of_a_plan() -> None:
    assert layout_of(planned(*HOPPER)) == Layout(8, 1, 2, expert=True, nodes=2)


def test_another_estimate_is_no_better_plan() -> None:
    plan = planned(*HOPPER)
    told = structs.replace(plan, speed=None, why=("Something else.",), reasons={}, rejected=())

    assert better_plan(KEY, plan, told) is None


def test_another_doubt_is_no_better_plan() -> None:
    """A newer operator may know more of an image or a model class, and less."""
    plan = planned(*HOPPER)

    assert better_plan(KEY, plan, structs.replace(plan, warning="Nobody has run it.")) is None


def test_nodes_more_of_the_same_make_no_better_plan() -> None:
    found = Cluster(nodes=HOPPER).apply(catalog_spec("inkling"), key=KEY)
    found.step(KEY)
    found.nodes = (*HOPPER, gpu_node("h-2"), replace(HOPPER[0], name="h-3"))

    assert found.decide(KEY).better is None
