"""Which layers a pipeline stage has: vLLM's own division, and where the layers of a group are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from kindling_operator.model.architecture import Architecture, AttentionGroup, AttentionKind


def stages(layers: int, pipeline: int) -> tuple[range, ...]:
    """Layers of each of `pipeline` stages, first to last; empty ones if there are more stages.

    Layers that are left over go one each to the stages before the last, from the back
    (vLLM 0.33.0, distributed/utils.py: get_pp_indices).
    """
    least, over = divmod(layers, pipeline)
    sizes = [least] * pipeline
    for stage in range(over):
        sizes[-2 - stage] += 1
    ends = [sum(sizes[: stage + 1]) for stage in range(pipeline)]
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))


@lru_cache(maxsize=256)
def positions(architecture: Architecture) -> Mapping[str, tuple[int, ...]]:
    """Indices of the layers of every group, in order.

    A group says them itself; the one attending group that does not has the layers that are left.
    Where more than one is silent they are spread evenly.
    """
    told = {g.name: tuple(sorted(g.positions)) for g in architecture.attention if g.positions}
    attending = [g for g in architecture.attending if g.name not in told]
    taken = {index for g in architecture.attending for index in told.get(g.name, ())}
    free = [index for index in range(architecture.layers) if index not in taken]
    beside = [g for g in architecture.attention if g.kind is AttentionKind.CONV]
    found = dict(told) | _spread(attending, free)
    for group in beside:
        if group.name not in found:
            found |= _spread([group], range(architecture.layers))
    return found


def dense_layers(architecture: Architecture) -> tuple[int, ...]:
    """Layers without experts: the first ones, as in every mixture of experts that has some
    (`first_k_dense_replace`, `dense_mlp_idx`, `mlp_only_layers` in config.json)."""
    experts = architecture.experts
    sparse = min(experts.layers, architecture.layers) if experts is not None else 0
    return tuple(range(architecture.layers - sparse))


def _spread(groups: Sequence[AttentionGroup], free: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The free layers dealt out so that each group is ahead of its even share by one at most."""
    found: dict[str, list[int]] = {group.name: [] for group in groups}
    left = {group.name: group.layers for group in groups}
    for place, index in enumerate(free, start=1):
        due = {
            group.name: group.layers * place - len(found[group.name]) * len(free)
            for group in groups
            if left[group.name]
        }
        if not due or (len(groups) == 1 and max(due.values()) < 1):
            continue
        name = max(due, key=lambda each: due[each])
        found[name].append(index)
        left[name] -= 1
    return {name: tuple(indices) for name, indices in found.items()}
