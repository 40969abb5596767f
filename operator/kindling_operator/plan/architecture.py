"""Does an architecture add up: what the fields' own rules cannot say, with the numbers.

The rules beside the fields (model/architecture.py) have been checked before: layers add up, heads
divide, windows stand where they belong, groups that are named exist.
"""

from __future__ import annotations

from collections.abc import Callable

from kindling_operator.model.architecture import (
    Architecture,
    AttentionGroup,
    AttentionKind,
    CheckpointName,
    Modality,
)
from kindling_operator.model.quantities import format_bytes

ArchitectureCheck = Callable[[Architecture], str | None]
"""One sentence about what does not add up, or None. It begins after "spec.model.custom: "."""

_BITS = {CheckpointName.BF16: 16, CheckpointName.NVFP4: 4}


def convolutions_outnumber_layers(architecture: Architecture) -> str | None:
    """Each layer has at most one short convolution."""
    count = sum(g.layers for g in architecture.attention if g.kind is AttentionKind.CONV)
    if count <= architecture.layers:
        return None
    return (
        f"the Conv groups have {count} layers and the model has {architecture.layers}:"
        " count each layer once"
    )


def expert_weights_have_no_experts(architecture: Architecture) -> str | None:
    """Expert parallelism divides the weights of experts that are described."""
    for checkpoint in architecture.checkpoints:
        if checkpoint.expert_bytes and architecture.experts is None:
            return (
                f"checkpoint {checkpoint.name.value} has expertBytes {checkpoint.expert_bytes} and"
                " the model has no `experts`: describe them or remove expertBytes"
            )
    return None


def checkpoint_is_smaller_than_its_shapes(architecture: Architecture) -> str | None:
    """The shapes alone, two matrices per MLP and no norms, take at least half as much as that.

    Half, because models share weights between layers; a size in the wrong unit is far below it.
    """
    elements = _least_elements(architecture)
    for checkpoint in architecture.checkpoints:
        least = elements * _BITS[checkpoint.name] // 8 // 2
        if checkpoint.bytes < least:
            return (
                f"checkpoint {checkpoint.name.value} has {format_bytes(checkpoint.bytes)} and the"
                f" shapes need at least {format_bytes(least)}: give `bytes` in bytes and check the"
                " shapes against config.json"
            )
    return None


def towers_outweigh_a_checkpoint(architecture: Architecture) -> str | None:
    """The towers are a part of every checkpoint, beside its routed experts."""
    towers = sum(tower.bytes for tower in architecture.towers)
    for checkpoint in architecture.checkpoints:
        parts = towers + checkpoint.expert_bytes
        if parts > checkpoint.bytes:
            return (
                f"checkpoint {checkpoint.name.value} has {format_bytes(checkpoint.bytes)} and its"
                f" towers and routed experts {format_bytes(parts)}: count them in `bytes`"
            )
    return None


def tower_has_no_modality(architecture: Architecture) -> str | None:
    """A tower encodes what requests may contain."""
    for tower in architecture.towers:
        if tower.modality not in architecture.modalities:
            return (
                f"towers has one for {tower.modality.value} and modalities has none: add"
                f" {tower.modality.value} to modalities or remove the tower"
            )
    return None


def layers_are_claimed_twice(architecture: Architecture) -> str | None:
    """Each layer attends in one way."""
    told = [index for group in architecture.attending for index in group.positions or ()]
    twice = next((index for index in told if told.count(index) > 1), None)
    if twice is None:
        return None
    return f"layer {twice} is in `positions` of two groups: name each layer once"


def text_is_missing(architecture: Architecture) -> str | None:
    """Every request has text."""
    if Modality.TEXT in architecture.modalities:
        return None
    return "modalities has no Text, which every request contains: add it"


ARCHITECTURE_CHECKS: tuple[ArchitectureCheck, ...] = (
    convolutions_outnumber_layers,
    expert_weights_have_no_experts,
    checkpoint_is_smaller_than_its_shapes,
    towers_outweigh_a_checkpoint,
    tower_has_no_modality,
    layers_are_claimed_twice,
    text_is_missing,
)


def architecture_problem(architecture: Architecture) -> str | None:
    """The first thing that does not add up, or None."""
    found = (check(architecture) for check in ARCHITECTURE_CHECKS)
    return next((problem for problem in found if problem is not None), None)


def _least_elements(architecture: Architecture) -> int:
    """Elements of the weights that the shapes cannot do without."""
    hidden = architecture.hidden_size
    count = architecture.vocabulary_size * hidden
    count += sum(_attention_elements(architecture, group) for group in architecture.attention)
    experts, dense_layers = architecture.experts, architecture.layers
    if experts is not None:
        dense_layers -= min(experts.layers, dense_layers)
        count += 2 * experts.layers * experts.count * hidden * experts.intermediate_size
    return count + 2 * dense_layers * hidden * (architecture.intermediate_size or 0)


def _attention_elements(architecture: Architecture, group: AttentionGroup) -> int:
    # Latent attention (no values) and convolutions have projections of other shapes.
    if group.kind is AttentionKind.CONV or group.head_size_value == 0:
        return 0
    value = group.head_size if group.head_size_value is None else group.head_size_value
    heads = architecture.attention_heads + group.kv_heads
    return group.layers * architecture.hidden_size * heads * (group.head_size + value)
