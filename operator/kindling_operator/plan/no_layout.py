"""Why no layout that the spec allows has nodes of a class of GPU, and the way out."""

from __future__ import annotations

from collections import Counter
from math import prod

from kindling_operator.model.names import LABEL_GPU_CLIQUE
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.fleet import Pool
from kindling_operator.plan.layouts import MOST_NODES
from kindling_operator.plan.listing import few
from kindling_operator.plan.pins import most_gpus, pins_of, pins_text
from kindling_operator.plan.rules.parallelism import tensor_sizes


def no_layout(first: Candidate, pool: Pool) -> str:
    """One sentence about the pins of the candidate's spec and the nodes of the pool."""
    pins, product = pins_of(first.subject), first.gpu.product
    asked, most = pins_text(first.subject), most_gpus(first.subject)
    needs = prod(size or 1 for size in (pins.tensor, pins.pipeline, pins.data))
    if most is not None and needs > most:
        return (
            f"{asked} needs {needs} GPUs and spec.placement.maxGpusPerReplica allows {most}: raise"
            f" it to {needs}, or leave out what is pinned."
        )
    if (pins.tensor or 1) > pool.largest:
        return _no_domain(first, pool)
    limit = f"spec.placement.maxGpusPerReplica {most}" if most is not None else ""
    given = " with ".join(text for text in (asked, limit) if text)
    return (
        f"{given or first.subject.entry.title} has no layout on {product}, of which there are"
        f" {_nodes(len(pool.nodes))} of at most {pool.largest} GPUs: leave out what is pinned, or"
        " add nodes."
    )


def _no_domain(first: Candidate, pool: Pool) -> str:
    """Tensor ranks over several nodes need an NVLink domain that has all of them."""
    pins, product, largest = pins_of(first.subject), first.gpu.product, pool.largest
    asked, tensor = pins_text(first.subject), pins.tensor or 1
    sizes = [size for size in tensor_sizes(first.subject.architecture) if size <= largest]
    smaller = f"pin tensor {max(sizes)}" if sizes else "leave it out"
    if max(pins.pipeline or 1, pins.data or 1) > 1:
        return (
            f"{asked} spreads {tensor} tensor ranks over nodes of at most {largest} GPUs, which"
            f" goes with neither pipeline stages nor data ranks: {smaller}, or leave those out."
        )
    count = next((n for n in range(2, MOST_NODES + 1) if _fits(tensor, n, largest)), MOST_NODES)
    each = -(-tensor // count)
    domains = Counter(node.clique for node in pool.nodes if node.clique and node.gpus >= each)
    needs = f"{asked} needs {count} nodes of {each} x {product} in one NVLink domain"
    if not domains:
        return (
            f"{needs}, and none of {_nodes(len(pool.nodes))} has the label {LABEL_GPU_CLIQUE}: run"
            f" NVIDIA's GPU feature discovery where NVLink spans nodes, or {smaller}."
        )
    listed = few([f"{name} has {_nodes(size)}" for name, size in domains.most_common()])
    alone = sum(1 for node in pool.nodes if not node.clique)
    others = f", {_nodes(alone)} in none" if alone else ""
    return f"{needs} ({LABEL_GPU_CLIQUE}): {listed}{others}; add nodes to one, or {smaller}."


def _fits(tensor: int, nodes: int, largest: int) -> bool:
    return tensor % nodes == 0 and tensor // nodes <= largest


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
