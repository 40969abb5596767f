"""Rules on the layout: how a replica may be spread over GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from kindling_operator.model.api_serving import Frontend
from kindling_operator.model.architecture import Architecture, CapabilityStatus
from kindling_operator.model.conditions import Reason
from kindling_operator.plan.candidate import Candidate, Refusal
from kindling_operator.plan.capabilities import Feature, status_of
from kindling_operator.plan.listing import joined
from kindling_operator.plan.pins import pins_of

_MOST_TENSOR = 64
"""The largest tensor-parallel size that the API takes."""


def tensor_sizes(architecture: Architecture) -> tuple[int, ...]:
    """The tensor-parallel sizes that the model's kernels take: its own list, or what divides."""
    listed = architecture.tensor_parallel_sizes
    sizes = sorted(listed) if listed is not None else range(1, _MOST_TENSOR + 1)
    return tuple(size for size in sizes if next(_undivided(architecture, size), None) is None)


def tensor_is_no_size_of_the_model(candidate: Candidate) -> Refusal | None:
    """Heads and widths must divide over the ranks; some kernels want more (trap T2).

    Source: vLLM 0.33.0, config/model.py:1557-1564; model_executor/layers/linear.py:1065-1070;
    models/inkling/nvidia/sconv_swa_attn.py:142-145 (a KV head for each rank's convolutions).
    """
    architecture, tensor = candidate.subject.architecture, candidate.layout.tensor
    sizes = tensor_sizes(architecture)
    if tensor in sizes:
        return None
    undivided = next(_undivided(architecture, tensor), None)
    title = candidate.subject.entry.title
    why = f"does not divide {undivided}" if undivided else f"is not among the sizes of {title}"
    ways = (
        f"use {joined([str(size) for size in sizes], 'or')}"
        if sizes
        else "correct the architecture"
    )
    return _unsupported(
        f"{_name(candidate, 'tensor', f'TP{tensor}')} {why}: {ways}, or leave it out."
    )


def experts_are_cut_unevenly(candidate: Candidate) -> Refusal | None:
    """Without expert parallelism each expert is cut over the tensor ranks.

    Source: vLLM 0.33.0, model_executor/layers/fused_moe/layer.py (intermediate size per rank).
    """
    experts, layout = candidate.subject.architecture.experts, candidate.layout
    if experts is None or layout.expert or experts.intermediate_size % layout.tensor == 0:
        return None
    return _unsupported(
        f"{_name(candidate, 'tensor', f'TP{layout.tensor}')} does not divide the expert width"
        f" {experts.intermediate_size}: set spec.placement.parallelism.expert true, or use fewer"
        " GPUs per replica."
    )


def stages_outnumber_layers(candidate: Candidate) -> Refusal | None:
    """Each pipeline stage has a layer.

    Source: vLLM 0.33.0, distributed/utils.py (get_pp_indices).
    """
    layers, stages = candidate.subject.architecture.layers, candidate.layout.pipeline
    if stages <= layers:
        return None
    what = _name(candidate, "pipeline", f"PP{stages}")
    return _unsupported(
        f"{what} exceeds the {layers} layers of {candidate.subject.entry.title}: use at most"
        f" {layers}, or leave it out."
    )


def experts_are_spread_and_there_are_none(candidate: Candidate) -> Refusal | None:
    """Expert parallelism spreads routed experts.

    Source: vLLM 0.33.0, config/parallel.py (enable_expert_parallel is for MoE models).
    """
    if not candidate.layout.expert or candidate.subject.architecture.experts is not None:
        return None
    what = _name(candidate, "expert", f"EP{candidate.layout.expert_ranks}")
    return _unsupported(
        f"{what} spreads experts and {candidate.subject.entry.title} has none: leave it out."
    )


def expert_ranks_outnumber_experts(candidate: Candidate) -> Refusal | None:
    """A rank without an expert would hold padding only.

    Source: vLLM 0.33.0, models/inkling/nvidia/moe.py:436-440 (experts are padded to the ranks).
    """
    experts = candidate.subject.architecture.experts
    ranks = candidate.layout.expert_ranks
    if experts is None or ranks <= experts.count:
        return None
    return _unsupported(
        f"{candidate.layout.name} has {ranks} expert ranks and {candidate.subject.entry.title}"
        f" {experts.count} routed experts: use fewer GPUs per replica."
    )


def data_ranks_of_a_dense_model_share_nothing(candidate: Candidate) -> Refusal | None:
    """Ranks of a dense model are replicas with one fate.

    Source: vLLM 0.33.0, config/parallel.py:169-175 and 551-554 (rank per pod is for MoE only).
    """
    if candidate.layout.data == 1 or candidate.subject.architecture.experts is not None:
        return None
    what = _name(candidate, "data", f"DP{candidate.layout.data}")
    return _unsupported(
        f"{what} makes {candidate.layout.data} copies of a model without experts, which share"
        " nothing: raise spec.replicas instead."
    )


def layout_is_known_to_fail(candidate: Candidate) -> Refusal | None:
    """Expert and data parallelism as the runtime's facts judge them for this model.

    Source: the capability's own.
    """
    layout, checkpoint = candidate.layout, candidate.checkpoint.name
    used = [
        *([(Feature.EXPERT_PARALLEL, "expert", "EP")] if layout.expert else []),
        *([(Feature.DATA_PARALLEL, "data", "DP")] if layout.data > 1 else []),
    ]
    for feature, field, short in used:
        known = status_of(candidate.subject, checkpoint, candidate.gpu, feature)
        pinned = getattr(pins_of(candidate.subject), field) is not None
        if known is None or known.status is CapabilityStatus.SUPPORTED:
            continue
        if known.status is CapabilityStatus.UNVERIFIED and pinned:
            continue
        return _unsupported(
            f"{candidate.title} with {short} is {known.status.value.lower()}, {known.reason}:"
            f" leave spec.placement.parallelism.{field} out."
        )
    return None


def rust_frontend_has_no_balancing(candidate: Candidate) -> Refusal | None:
    """The Rust frontend knows neither hybrid nor external load balancing (trap T27).

    Source: vLLM 0.33.0, `vllm-rs serve --help`, "Options not implemented".
    """
    layout = candidate.layout
    rust = candidate.subject.spec.serving.frontend is Frontend.RUST
    if not rust or layout.data == 1 or layout.nodes == 1:
        return None
    return _unsupported(
        f"{layout.name} over {layout.nodes} nodes balances requests between its ranks, which the"
        " Rust frontend cannot: set spec.serving.frontend Python."
    )


def _undivided(architecture: Architecture, tensor: int) -> Iterator[str]:
    """What does not divide over `tensor` ranks, in the order of the layers."""
    if architecture.attention_heads % tensor:
        yield f"{architecture.attention_heads} attention heads"
    for group in architecture.attending:
        few, many = sorted((group.kv_heads, tensor))
        if many % few:
            yield f"{group.kv_heads} KV heads of group {group.name}"
    if architecture.intermediate_size is not None and architecture.intermediate_size % tensor:
        yield f"the MLP width {architecture.intermediate_size}"
    experts = architecture.experts
    shared = experts.shared if experts is not None else None
    if shared is not None and shared.intermediate_size % tensor:
        yield f"the width {shared.intermediate_size} of the shared experts"


def _name(candidate: Candidate, field: str, short: str) -> str:
    """The pin that asks for it as the user wrote it, else the layout's own word."""
    pinned = getattr(pins_of(candidate.subject), field)
    if pinned is None:
        return short
    return f"spec.placement.parallelism.{field} {str(pinned).lower()}"


def _unsupported(message: str) -> Refusal:
    return Refusal(Reason.UNSUPPORTED_PARALLELISM, message)
