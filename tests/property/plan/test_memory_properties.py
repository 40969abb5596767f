"""What holds of the memory of any architecture on any layout."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.builders import tiny_architecture
from tests.support.examples import examples

from kindling_operator.model.architecture import Architecture
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.plan.kv import kv_layout
from kindling_operator.plan.memory import EngineLoad, gpu_items, pod_items, total
from kindling_operator.plan.stages import positions, stages
from kindling_operator.plan.weights import gpu_weights, weight_parts

SETTINGS = examples(75)
RANKS = st.sampled_from([1, 2, 4, 8, 16])
PIPELINES = st.integers(1, 6)


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    """Decoders of one to three kinds of layers, dense or with experts, with or without drafts."""
    counts = draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
    attention: list[dict[str, Any]] = []
    for place, layers in enumerate(counts):
        kind = draw(st.sampled_from(["Full", "Sliding"]))
        window = {"window": draw(st.integers(1, 4096))} if kind == "Sliding" else {}
        heads = draw(st.sampled_from([1, 2, 4, 8]))
        size = draw(st.sampled_from([64, 128]))
        attention.append(
            {"name": f"g{place}", "kind": kind, "layers": layers, "kvHeads": heads}
            | {"headSize": size, **window}
        )
    layers = sum(counts)
    changes: dict[str, Any] = {"layers": layers, "attention": attention, "attentionHeads": 16}
    if draw(st.booleans()):
        sparse = draw(st.integers(1, layers))
        changes["experts"] = {
            "count": draw(st.integers(2, 300)),
            "perToken": 2,
            "layers": sparse,
            "intermediateSize": 64,
        }
    if draw(st.booleans()):
        changes["draft"] = {"depths": draw(st.integers(1, 8)), "attentionGroup": "g0"}
    changes["tiedEmbedding"] = draw(st.booleans())
    changes["replicatedEmbedding"] = draw(st.booleans())
    size = draw(st.integers(10_000_000, 2_000_000_000))
    changes["checkpoints"] = [{"name": draw(st.sampled_from(["BF16", "NVFP4"])), "bytes": size}]
    return msgspec.convert(tiny_architecture(**changes), Architecture)


def weights(architecture: Architecture, layout: Layout, draft: int = 0) -> int:
    parts = weight_parts(architecture, architecture.checkpoints[0], draft=draft)
    return total(gpu_weights(parts, architecture, layout))


@SETTINGS
@given(architectures(), RANKS, PIPELINES)
def test_all_gpus_together_hold_all_weights(
    architecture: Architecture, tensor: int, pipeline: int
) -> None:
    layout = Layout(tensor=tensor, pipeline=pipeline)
    one = weights(architecture, ONE_GPU)

    assert one <= architecture.checkpoints[0].bytes
    assert weights(architecture, layout) * layout.gpus >= one


@SETTINGS
@given(architectures(), st.sampled_from([1, 2, 4, 8]), PIPELINES, st.integers(0, 9))
def test_more_ranks_never_make_a_gpu_fuller(
    architecture: Architecture, tensor: int, pipeline: int, draft: int
) -> None:
    few = weights(architecture, Layout(tensor=tensor, pipeline=pipeline), draft)

    assert weights(architecture, Layout(tensor=2 * tensor, pipeline=pipeline), draft) <= few
    assert few <= weights(architecture, Layout(tensor=tensor), draft)


@SETTINGS
@given(architectures(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_more_expert_ranks_never_make_a_gpu_fuller(
    architecture: Architecture, tensor: int, data: int
) -> None:
    few = Layout(tensor=tensor, data=data, expert=True)
    more = Layout(tensor=tensor, data=2 * data, expert=True)

    assert weights(architecture, more) <= weights(architecture, few)


@SETTINGS
@given(architectures(), st.integers(0, 8))
def test_more_drafts_never_need_less(architecture: Architecture, draft: int) -> None:
    assert weights(architecture, ONE_GPU, draft) <= weights(architecture, ONE_GPU, draft + 1)
    whole = weights(architecture, ONE_GPU, 32)
    assert whole <= architecture.checkpoints[0].bytes
    assert architecture.checkpoints[0].bytes - whole < 32  # bytes lost to rounding down


@SETTINGS
@given(architectures(), RANKS, st.integers(1, 16_384), st.integers(1, 512), st.integers(0, 4))
def test_more_load_never_needs_less(
    architecture: Architecture, tensor: int, batched: int, sequences: int, draft: int
) -> None:
    def needed(more: int) -> int:
        load = EngineLoad(batched + more, sequences + more, draft)
        checkpoint = architecture.checkpoints[0]
        return total(gpu_items(architecture, checkpoint, Layout(tensor=tensor), load))

    assert needed(0) < needed(1)


@SETTINGS
@given(architectures(), st.sampled_from([1, 2, 4, 8]), PIPELINES, st.integers(0, 8))
def test_kv_blocks_divide_over_ranks_and_stages(
    architecture: Architecture, tensor: int, pipeline: int, draft: int
) -> None:
    def layout(**sizes: int) -> Any:
        return kv_layout(architecture, block_tokens=16, draft=draft, **sizes)

    one, stage = layout(), layout(pipeline=pipeline)
    assert stage.groups == one.groups
    assert stage.bytes_per_block <= one.bytes_per_block <= stage.bytes_per_block * pipeline
    # Beyond the heads of a group its ranks hold copies, and its layers may join another group's.
    if all(group.kv_heads % (2 * tensor) == 0 for group in architecture.attention):
        half = layout(tensor_parallel=2 * tensor).bytes_per_block
        assert 2 * half == layout(tensor_parallel=tensor).bytes_per_block


@SETTINGS
@given(architectures(), PIPELINES)
def test_every_layer_is_in_one_group_and_on_one_stage(
    architecture: Architecture, pipeline: int
) -> None:
    where = positions(architecture)
    every = list(range(architecture.layers))

    assert sorted(layer for indices in where.values() for layer in indices) == every
    assert {g.name: len(where[g.name]) for g in architecture.attention} == {
        g.name: g.layers for g in architecture.attention
    }
    assert [layer for stage in stages(architecture.layers, pipeline) for layer in stage] == every


@SETTINGS
@given(architectures(), st.integers(0, 2**40))
def test_a_host_tier_is_asked_for_in_full(architecture: Architecture, tier: int) -> None:
    checkpoint = architecture.checkpoints[0]
    with_tier = pod_items(checkpoint, Layout(tensor=8), host_tier=tier)

    assert total(with_tier) == total(pod_items(checkpoint, Layout(tensor=8))) + tier
