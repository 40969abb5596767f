"""Weights by component: what each GPU of a layout holds of them, in bytes.

The sizes of embedding, head, projections and MLPs follow from the shapes; whatever else the
checkpoint has (norms, biases, latent projections) is one line, so that the lines are the
checkpoint's own size together. Where the shapes need more than the checkpoint has, because layers
share weights, they are cut in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache

from kindling_operator.model.architecture import (
    Architecture,
    AttentionGroup,
    AttentionKind,
    Checkpoint,
    CheckpointName,
    Draft,
    Modality,
    WeightKind,
)
from kindling_operator.model.layout import Layout
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan.stages import dense_layers, positions, stages


class Division(Enum):
    """How the ranks of one stage share a part."""

    TENSOR = auto()
    """Cut over the tensor-parallel ranks."""
    EXPERT = auto()
    """Whole experts over the expert-parallel ranks if there are any, else cut like the rest."""
    REPLICATED = auto()
    """Whole on every rank."""


class Place(Enum):
    """Which stages of a pipeline hold a part."""

    LAYERS = auto()
    """Each stage has the share of its layers."""
    FIRST = auto()
    LAST = auto()
    EVERY_STAGE = auto()


@dataclass(frozen=True, slots=True)
class WeightPart:
    """One component of the weights: `bytes` of the whole model.

    `layers` are the indices that a part of `Place.LAYERS` is spread over. `most_ways` is into how
    many pieces it can be cut: beyond that ranks hold copies, as they do of the KV heads.
    """

    name: str
    bytes: int
    division: Division
    place: Place
    layers: tuple[int, ...] = ()
    most_ways: int | None = None


OTHER_WEIGHTS = "Other weights"
"""What the shapes do not tell of."""

_SIXTEENTHS = {CheckpointName.BF16: 32, CheckpointName.NVFP4: 9}
"""Bytes of 16 elements. NVFP4: 4 bits each, and a scale of 8 bits for all."""


def weight_parts(
    architecture: Architecture,
    checkpoint: Checkpoint,
    *,
    draft: int = 0,
    modalities: Iterable[Modality] = (),
) -> tuple[WeightPart, ...]:
    """What is loaded of a checkpoint with `draft` drafted tokens for requests of `modalities`.

    vLLM loads the prediction layers that it uses, and no tower with ``--language-model-only``.
    """
    return _weight_parts(architecture, checkpoint, draft, frozenset(modalities))


@lru_cache(maxsize=1024)
def _weight_parts(
    architecture: Architecture, checkpoint: Checkpoint, draft: int, wanted: frozenset[Modality]
) -> tuple[WeightPart, ...]:
    """Each search asks for the same few, once per layout."""
    towers = {tower.modality: tower.bytes for tower in architecture.towers}
    heads = _draft_parts(architecture, architecture.draft, None)
    shaped = (*_text_parts(architecture, checkpoint), *heads)
    given = sum(towers.values()) + checkpoint.expert_bytes
    shaped = _fitted(shaped, max(0, checkpoint.bytes - given))
    rest = max(0, checkpoint.bytes - given - _sum(shaped))
    loaded = [part for part in shaped if part.name not in _DRAFT_NAMES]
    loaded += _given_experts(architecture, checkpoint)
    loaded += _others(architecture, checkpoint, loaded, rest)
    loaded += _loaded_drafts(architecture, draft, [p for p in shaped if p.name in _DRAFT_NAMES])
    loaded += [
        WeightPart(f"{modality.value} tower", size, Division.REPLICATED, Place.FIRST)
        for modality, size in towers.items()
        if modality in wanted
    ]
    return tuple(part for part in loaded if part.bytes)


def gpu_weights(
    parts: Iterable[WeightPart], architecture: Architecture, layout: Layout
) -> tuple[MemoryItem, ...]:
    """What the fullest GPU of a layout holds, one line per component."""
    kept = tuple(parts)
    bounds = stages(architecture.layers, layout.pipeline)
    each = [
        [(part, _on_rank(part, architecture, layout, bounds, stage)) for part in kept]
        for stage in range(layout.pipeline)
    ]
    lines: dict[str, int] = {}
    for part, size in max(each, key=lambda stage: sum(size for _, size in stage)):
        title = _title(part, layout)
        lines[title] = lines.get(title, 0) + size
    return tuple(
        MemoryItem(item=item, bytes=size, basis=Basis.EXACT) for item, size in lines.items() if size
    )


def _title(part: WeightPart, layout: Layout) -> str:
    whole = part.division is Division.REPLICATED and layout.tensor > 1
    copied = part.most_ways is not None and layout.tensor > part.most_ways
    return f"{part.name}, replicated" if whole or copied else part.name


def _on_rank(
    part: WeightPart,
    architecture: Architecture,
    layout: Layout,
    bounds: tuple[range, ...],
    stage: int,
) -> int:
    size = part.bytes
    last = len(bounds) - 1
    if part.place is Place.LAYERS:
        here = sum(1 for layer in part.layers if layer in bounds[stage])
        size = -(-size * here // len(part.layers))
    elif (part.place is Place.FIRST and stage) or (part.place is Place.LAST and stage != last):
        return 0
    match part.division:
        case Division.REPLICATED:
            return size
        case Division.EXPERT if layout.expert and architecture.experts is not None:
            count = architecture.experts.count
            # Experts are padded to a multiple of the ranks.
            return -(-size * -(-count // layout.expert_ranks) // count)
        case _:
            return -(-size // min(layout.tensor, part.most_ways or layout.tensor))


def _text_parts(architecture: Architecture, checkpoint: Checkpoint) -> Iterator[WeightPart]:
    """The parts that every request passes, as far as the shapes tell."""
    table = architecture.vocabulary_size * architecture.hidden_size * 2
    whole = architecture.replicated_embedding
    yield WeightPart(
        "Embedding",
        table,
        Division.REPLICATED if whole else Division.TENSOR,
        Place.EVERY_STAGE if architecture.tied_embedding else Place.FIRST,
    )
    if not architecture.tied_embedding:
        yield WeightPart("Output head", table, Division.TENSOR, Place.LAST)
    yield from _attention_parts(architecture, checkpoint)
    yield from _mlp_parts(architecture, checkpoint)


def _attention_parts(architecture: Architecture, checkpoint: Checkpoint) -> Iterator[WeightPart]:
    where = positions(architecture)
    for group in architecture.attending:
        query, kv = _projections(architecture, group)
        for name, elements, ways in (
            ("Attention", query, None),
            ("KV projections", kv, group.kv_heads),
        ):
            size = _size(elements * group.layers, checkpoint, WeightKind.ATTENTION)
            layers = where[group.name]
            yield WeightPart(name, size, Division.TENSOR, Place.LAYERS, layers, ways)


def _projections(architecture: Architecture, group: AttentionGroup) -> tuple[int, int]:
    """Elements of one layer: query and output, then key and value; none for latent attention."""
    if group.kind is AttentionKind.CONV or group.head_size_value == 0:
        return 0, 0
    value = group.head_size if group.head_size_value is None else group.head_size_value
    hidden, heads = architecture.hidden_size, architecture.attention_heads
    query = hidden * heads * (group.head_size + group.head_size_position + value)
    return query, hidden * group.kv_heads * (group.head_size + value)


def _mlp_parts(architecture: Architecture, checkpoint: Checkpoint) -> Iterator[WeightPart]:
    dense = dense_layers(architecture)
    width = architecture.intermediate_size
    matrix = 3 * architecture.hidden_size
    if dense and width is not None:
        size = _size(len(dense) * matrix * width, checkpoint, WeightKind.DENSE_MLP)
        yield WeightPart("Dense MLP", size, Division.TENSOR, Place.LAYERS, dense)
    experts = architecture.experts
    if experts is None:
        return
    sparse = tuple(range(len(dense), architecture.layers))
    if not checkpoint.expert_bytes:
        size = _expert_size(architecture, checkpoint)
        yield WeightPart(_EXPERTS, size, Division.EXPERT, Place.LAYERS, sparse)
    if experts.shared is not None:
        elements = len(sparse) * experts.shared.count * matrix * experts.shared.intermediate_size
        size = _size(elements, checkpoint, WeightKind.SHARED_EXPERTS)
        yield WeightPart("Shared experts", size, Division.TENSOR, Place.LAYERS, sparse)
    routers = len(sparse) * experts.count * architecture.hidden_size * 2
    yield WeightPart("Routers", routers, Division.REPLICATED, Place.LAYERS, sparse)


def _given_experts(architecture: Architecture, checkpoint: Checkpoint) -> Iterator[WeightPart]:
    """Routed experts of a checkpoint that says how large they are.

    What is above the size of its format are layers that are kept in bfloat16. Which ones they are
    nobody tells, so that every stage of a pipeline counts them.
    """
    sparse = tuple(range(len(dense_layers(architecture)), architecture.layers))
    even = min(checkpoint.expert_bytes, _expert_size(architecture, checkpoint))
    above = checkpoint.expert_bytes - even
    if sparse:
        yield WeightPart(_EXPERTS, even, Division.EXPERT, Place.LAYERS, sparse)
    yield WeightPart(_EXPERTS, above, Division.EXPERT, Place.EVERY_STAGE)


def _expert_size(architecture: Architecture, checkpoint: Checkpoint) -> int:
    experts = architecture.experts
    if experts is None:
        return 0
    layers = min(experts.layers, architecture.layers)
    elements = layers * experts.count * 3 * architecture.hidden_size * experts.intermediate_size
    return _size(elements, checkpoint, WeightKind.ROUTED_EXPERTS)


_EXPERTS = "Routed experts"
_DRAFT, _DRAFT_INPUT = "Draft layers", "Draft inputs"
_DRAFT_NAMES = (_DRAFT, _DRAFT_INPUT)


def _draft_parts(
    architecture: Architecture, draft: Draft | None, depths: int | None
) -> tuple[WeightPart, ...]:
    """The first `depths` prediction layers, all of them for None; always in bfloat16.

    Each joins the previous hidden state and the next token's embedding by a projection that no
    rank shares (vLLM 0.33.0, models/inkling/nvidia/mtp.py: ReplicatedLinear).
    """
    if draft is None:
        return ()
    hidden = architecture.hidden_size
    used = range(draft.depths if depths is None else min(depths, draft.depths))
    inputs = len(used) * 2 * hidden * hidden * 2
    layers = sum(_draft_layer(architecture, draft.group_of(depth)) for depth in used)
    if draft.bytes is not None:
        share = -(-draft.bytes * len(used) // draft.depths)
        inputs = min(inputs, share)
        layers = share - inputs
    return (
        WeightPart(_DRAFT, layers, Division.TENSOR, Place.LAST),
        WeightPart(_DRAFT_INPUT, inputs, Division.REPLICATED, Place.LAST),
    )


def _draft_layer(architecture: Architecture, name: str) -> int:
    groups = [group for group in architecture.attending if group.name == name]
    attention = sum(sum(_projections(architecture, group)) for group in groups)
    experts, width = architecture.experts, architecture.intermediate_size
    if width is None and experts is not None:
        width = experts.count * experts.intermediate_size
    return 2 * (attention + 3 * architecture.hidden_size * (width or 0))


def _loaded_drafts(
    architecture: Architecture, depths: int, whole: list[WeightPart]
) -> Iterator[WeightPart]:
    """The prediction layers in use, cut as all of them were."""
    free = _draft_parts(architecture, architecture.draft, None)
    used = _draft_parts(architecture, architecture.draft, depths)
    for fitted, all_of, part in zip(whole, free, used, strict=True):
        size = part.bytes * fitted.bytes // all_of.bytes if all_of.bytes else 0
        yield replace(part, bytes=size)


def _others(
    architecture: Architecture, checkpoint: Checkpoint, known: list[WeightPart], rest: int
) -> Iterator[WeightPart]:
    """What the shapes do not tell of; first the part that the checkpoint calls replicated."""
    everywhere = tuple(range(architecture.layers))
    named = sum(part.bytes for part in known if part.division is Division.REPLICATED)
    whole = min(rest, max(0, checkpoint.replicated_bytes - named))
    yield WeightPart("Further weights", whole, Division.REPLICATED, Place.LAYERS, everywhere)
    yield WeightPart(OTHER_WEIGHTS, rest - whole, Division.TENSOR, Place.LAYERS, everywhere)


def _fitted(parts: tuple[WeightPart, ...], room: int) -> tuple[WeightPart, ...]:
    """The parts as they are if they fit into `room` bytes, else all of them smaller alike."""
    needed = _sum(parts)
    if needed <= room:
        return parts
    return tuple(replace(part, bytes=part.bytes * room // needed) for part in parts)


def _sum(parts: Iterable[WeightPart]) -> int:
    return sum(part.bytes for part in parts)


def _size(elements: int, checkpoint: Checkpoint, kind: WeightKind) -> int:
    within = checkpoint.quantized is None or kind in checkpoint.quantized
    return elements * _SIXTEENTHS[checkpoint.name if within else CheckpointName.BF16] // 16
