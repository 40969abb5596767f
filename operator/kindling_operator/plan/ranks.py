"""What each pod of a replica gets on top of the common command, and which of them answer HTTP.

vLLM 0.33.0: ranks of one engine over several nodes are started with --nnodes and followers without
a server (entrypoints/cli/serve.py:218-233); data-parallel ranks over nodes each keep a server for
their node (--data-parallel-hybrid-lb, serve.py:90-105 and 196).
"""

from __future__ import annotations

from typing import Final

from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import GroupPlan
from kindling_runtime.contract import LEADER_PLACEHOLDER

MASTER_PORT: Final = 29501
"""Rendezvous of tensor and pipeline ranks (vLLM 0.33.0, --master-port)."""
DATA_PARALLEL_PORT: Final = 29550
"""RPC of data-parallel ranks (vLLM 0.33.0, --data-parallel-rpc-port)."""


def layout_arguments(layout: Layout) -> tuple[str, ...]:
    """The sizes that every pod is told alike; sizes of one are vLLM's own."""
    arguments = [f"--tensor-parallel-size={layout.tensor}"] if layout.tensor > 1 else []
    if layout.pipeline > 1:
        arguments.append(f"--pipeline-parallel-size={layout.pipeline}")
    if layout.data > 1:
        arguments.append(f"--data-parallel-size={layout.data}")
    if layout.expert:
        arguments.append("--enable-expert-parallel")
    if layout.expert and layout.data > 1:
        # Inkling ends at its profile run with every other one (trap T10).
        arguments.append("--all2all-backend=allgather_reducescatter")
    return tuple(arguments)


def group_plan(layout: Layout) -> GroupPlan | None:
    """The pods of one replica, the leader first; None for a replica of one pod."""
    if layout.nodes == 1:
        return None
    if layout.data > 1:
        ranks = tuple(_data_rank(layout, node) for node in range(layout.nodes))
        return GroupPlan(rank_arguments=ranks, serving=(True,) * layout.nodes)
    ranks = tuple(_engine_rank(layout, node) for node in range(layout.nodes))
    return GroupPlan(rank_arguments=ranks, serving=(True, *(False,) * (layout.nodes - 1)))


def _engine_rank(layout: Layout, node: int) -> tuple[str, ...]:
    """One engine whose tensor or pipeline ranks span the nodes."""
    arguments = (
        f"--nnodes={layout.nodes}",
        f"--node-rank={node}",
        f"--master-addr={LEADER_PLACEHOLDER}",
        f"--master-port={MASTER_PORT}",
    )
    return (*arguments, "--headless") if node else arguments


def _data_rank(layout: Layout, node: int) -> tuple[str, ...]:
    """The data-parallel ranks of one node, with a server of their own."""
    local = layout.data // layout.nodes
    return (
        f"--data-parallel-size-local={local}",
        f"--data-parallel-start-rank={node * local}",
        f"--data-parallel-address={LEADER_PLACEHOLDER}",
        f"--data-parallel-rpc-port={DATA_PARALLEL_PORT}",
        "--data-parallel-hybrid-lb",
    )
