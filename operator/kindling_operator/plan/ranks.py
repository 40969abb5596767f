"""What each pod of a replica gets on top of the common command, and which of them answer HTTP.

vLLM 0.33.0: ranks of one engine over several nodes are started with --nnodes and followers without
a server (entrypoints/cli/serve.py:218-233); data-parallel ranks over nodes each keep a server for
their node (--data-parallel-hybrid-lb, serve.py:90-105 and 196).
"""

from __future__ import annotations

from typing import Final

from kindling_operator.model.layout import Layout
from kindling_operator.model.plan import GroupPlan
from kindling_operator.plan.argument import Argument, texts
from kindling_runtime.contract import LEADER_PLACEHOLDER

MASTER_PORT: Final = 29501
"""Rendezvous of tensor and pipeline ranks (vLLM 0.33.0, --master-port)."""
DATA_PARALLEL_PORT: Final = 29550
"""RPC of data-parallel ranks (vLLM 0.33.0, --data-parallel-rpc-port)."""


def layout_arguments(layout: Layout) -> tuple[Argument, ...]:
    """The sizes that every pod is told alike; sizes of one are vLLM's own."""
    tensor, pipeline, data = layout.tensor, layout.pipeline, layout.data
    arguments = []
    if tensor > 1:
        arguments.append(Argument(f"--tensor-parallel-size={tensor}", "GPUs that share each layer"))
    if pipeline > 1:
        arguments.append(Argument(f"--pipeline-parallel-size={pipeline}", "stages of layers"))
    if data > 1:
        why = "copies of the attention layers, each with requests of its own"
        arguments.append(Argument(f"--data-parallel-size={data}", why))
    if layout.expert:
        why = "experts are spread over all GPUs of the replica"
        arguments.append(Argument("--enable-expert-parallel", why))
    if layout.expert and data > 1:
        # Inkling ends at its profile run with every other one (trap T10).
        why = "the one way of exchange that the models run with"
        arguments.append(Argument("--all2all-backend=allgather_reducescatter", why))
    return tuple(arguments)


def group_plan(layout: Layout) -> GroupPlan | None:
    """The pods of one replica, the leader first; None for a replica of one pod."""
    if layout.nodes == 1:
        return None
    ranks = tuple(texts(each) for each in rank_arguments(layout))
    if layout.data > 1:
        return GroupPlan(rank_arguments=ranks, serving=(True,) * layout.nodes)
    return GroupPlan(rank_arguments=ranks, serving=(True, *(False,) * (layout.nodes - 1)))


def rank_arguments(layout: Layout) -> tuple[tuple[Argument, ...], ...]:
    """What each pod's command gets on top, the leader's first; nothing for a replica of one pod."""
    rank = _data_rank if layout.data > 1 else _engine_rank
    return tuple(rank(layout, node) for node in range(layout.nodes if layout.nodes > 1 else 0))


def _engine_rank(layout: Layout, node: int) -> tuple[Argument, ...]:
    """One engine whose tensor or pipeline ranks span the nodes."""
    arguments = (
        Argument(f"--nnodes={layout.nodes}", "pods of one replica"),
        Argument(f"--node-rank={node}", "the pod's place among them"),
        Argument(f"--master-addr={LEADER_PLACEHOLDER}", "the leader, where the ranks meet"),
        Argument(f"--master-port={MASTER_PORT}", "the port for it, open within the group"),
    )
    headless = Argument("--headless", "only the leader answers HTTP")
    return (*arguments, headless) if node else arguments


def _data_rank(layout: Layout, node: int) -> tuple[Argument, ...]:
    """The data-parallel ranks of one node, with a server of their own."""
    local = layout.data // layout.nodes
    rpc = "the port for it, open within the group"
    return (
        Argument(f"--data-parallel-size-local={local}", "copies in one pod"),
        Argument(f"--data-parallel-start-rank={node * local}", "the first copy of the pod"),
        Argument(f"--data-parallel-address={LEADER_PLACEHOLDER}", "the leader, where they meet"),
        Argument(f"--data-parallel-rpc-port={DATA_PARALLEL_PORT}", rpc),
        Argument("--data-parallel-hybrid-lb", "each pod answers HTTP for its own copies"),
    )
