"""What the user reads when the pins of a spec have no nodes: what there is, and the way out."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from tests.support.builders import Cluster, catalog_spec, gpu_node, tainted

from kindling_operator.model.conditions import MESSAGE_BYTES, Reason
from kindling_operator.model.objects import NodeView

PINNED: Final = {"parallelism": {"tensor": 8}}


def refused(nodes: tuple[NodeView, ...], placement: Mapping[str, Any]) -> tuple[Reason, str]:
    spec = catalog_spec("inkling", model={"checkpoint": "NVFP4"}, placement=placement)
    found = Cluster(nodes=nodes).apply(spec).decide().refused
    assert found is not None
    return found.reason, found.message


def nodes(*cliques: str, gpus: int = 4) -> tuple[NodeView, ...]:
    """A node of B200 in each of these NVLink domains; "" is in none."""
    return tuple(
        gpu_node(f"n{number}", "NVIDIA-B200", gpus=gpus, clique=clique)
        for number, clique in enumerate(cliques)
    )


CASES = {
    "no NVLink domain at all": (
        nodes("", "", ""),
        PINNED,
        "spec.placement.parallelism {tensor: 8} needs 2 nodes of 4 x NVIDIA-B200 in one NVLink"
        " domain, and none of 3 nodes has the label nvidia.com/gpu.clique: run NVIDIA's GPU feature"
        " discovery where NVLink spans nodes, or pin tensor 4.",
    ),
    "domains that are too small": (
        nodes("rack-a", "rack-b", "", ""),
        PINNED,
        "spec.placement.parallelism {tensor: 8} needs 2 nodes of 4 x NVIDIA-B200 in one NVLink"
        " domain (nvidia.com/gpu.clique): rack-a has 1 node, rack-b has 1 node, 2 nodes in none;"
        " add nodes to one, or pin tensor 4.",
    ),
    "the largest domain first": (
        nodes("rack-a", "rack-b", "rack-b", gpus=2),
        PINNED,
        "spec.placement.parallelism {tensor: 8} needs 4 nodes of 2 x NVIDIA-B200 in one NVLink"
        " domain (nvidia.com/gpu.clique): rack-b has 2 nodes, rack-a has 1 node; add nodes to one,"
        " or pin tensor 2.",
    ),
    "a domain whose other nodes are out of reach": (
        (*nodes("rack-a"), tainted(gpu_node("x", "NVIDIA-B200", gpus=4, clique="rack-a"), "team")),
        PINNED,
        "spec.placement.parallelism {tensor: 8} needs 2 nodes of 4 x NVIDIA-B200 in one NVLink"
        " domain (nvidia.com/gpu.clique): rack-a has 1 node; add nodes to one, or pin tensor 4.",
    ),
    "stages beside tensor ranks that span nodes": (
        nodes("rack-a", "rack-a", "rack-a", "rack-a"),
        {"parallelism": {"tensor": 8, "pipeline": 2}},
        "spec.placement.parallelism {tensor: 8, pipeline: 2} spreads 8 tensor ranks over nodes of"
        " at most 4 GPUs, which goes with neither pipeline stages nor data ranks: pin tensor 4, or"
        " leave those out.",
    ),
    "a limit below the pins": (
        nodes("", gpus=8),
        {"parallelism": {"tensor": 8}, "maxGpusPerReplica": 4},
        "spec.placement.parallelism {tensor: 8} needs 8 GPUs and spec.placement.maxGpusPerReplica"
        " allows 4: raise it to 8, or leave out what is pinned.",
    ),
}


@pytest.mark.parametrize(("found", "placement", "message"), CASES.values(), ids=CASES.keys())
def test_pins_without_nodes(
    found: tuple[NodeView, ...], placement: Mapping[str, Any], message: str
) -> None:
    assert refused(found, placement) == (Reason.UNSUPPORTED_PARALLELISM, message)


def test_a_domain_that_is_large_enough_is_taken() -> None:
    spec = catalog_spec("inkling", model={"checkpoint": "NVFP4"}, placement=PINNED)
    decision = Cluster(nodes=nodes("rack-a", "rack-b", "rack-b")).apply(spec).decide()

    assert decision.refused is None


def test_many_domains_leave_the_fix_in_the_message() -> None:
    _, message = refused(nodes(*(f"{'c' * 55}.{number:05}" for number in range(40))), PINNED)

    assert len(message.encode()) <= MESSAGE_BYTES
    assert " more; add nodes to one, or pin tensor 4." in message
