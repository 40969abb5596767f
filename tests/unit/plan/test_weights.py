"""Weights by component: the measured sizes, and what each GPU of a layout gets of them."""

import msgspec
import pytest
from tests.support.builders import GIB, tiny_architecture

from kindling_operator import catalog
from kindling_operator.model.architecture import (
    Architecture,
    Checkpoint,
    CheckpointName,
    Modality,
)
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.plan.memory import total
from kindling_operator.plan.weights import (
    OTHER_WEIGHTS,
    Division,
    gpu_weights,
    weight_parts,
)

FLINT = catalog.load("flint").architecture
INKLING = catalog.load("inkling").architecture
BF16, NVFP4 = CheckpointName.BF16, CheckpointName.NVFP4
EVERYTHING = (Modality.TEXT, Modality.IMAGE, Modality.AUDIO)


def checkpoint(architecture: Architecture, name: CheckpointName) -> Checkpoint:
    found = architecture.checkpoint(name)
    assert found is not None
    return found


def lines(
    architecture: Architecture,
    name: CheckpointName = BF16,
    layout: Layout = ONE_GPU,
    *,
    draft: int = 0,
    modalities: tuple[Modality, ...] = (),
) -> dict[str, int]:
    parts = weight_parts(
        architecture, checkpoint(architecture, name), draft=draft, modalities=modalities
    )
    return {item.item: item.bytes for item in gpu_weights(parts, architecture, layout)}


def from_shapes(architecture: Architecture, name: CheckpointName) -> int:
    """Bytes of all components, without what the shapes do not tell of."""
    found = lines(architecture, name, draft=32, modalities=EVERYTHING)
    return sum(size for item, size in found.items() if item != OTHER_WEIGHTS)


def inkling_cut() -> Architecture:
    """The cut that ran on an H200: 12 layers, two of them dense, 8 experts, text only."""
    counts = {"full_attention": 2, "sliding_window": 10, "short_conv": 12}
    attention = tuple(
        msgspec.structs.replace(group, layers=counts[group.name], positions=None)
        for group in INKLING.attention
    )
    assert INKLING.experts is not None
    return msgspec.structs.replace(
        INKLING,
        layers=12,
        attention=attention,
        experts=msgspec.structs.replace(INKLING.experts, count=8, layers=10),
        draft=None,
        towers=(),
        checkpoints=(Checkpoint(name=BF16, bytes=2**53 - 1),),
    )


# Measured, and how far the shapes may be below it: norms, routing biases, what an engine adds.
MEASURED = {
    "Flint BF16 on the device": (FLINT, BF16, 74.27, 0.3),
    "Flint NVFP4, the GGUF file": (FLINT, NVFP4, 21.90, 1.0),
    "Inkling cut to 12 layers and 8 experts": (inkling_cut(), BF16, 19.75, 0.1),
    "Inkling BF16, the published files": (INKLING, BF16, 1773.9, 0.01),
    "Inkling NVFP4, the published files": (INKLING, NVFP4, 592e9 / GIB, 0.01),
}


@pytest.mark.parametrize("case", MEASURED.values(), ids=MEASURED.keys())
def test_the_components_are_the_measured_size(
    case: tuple[Architecture, CheckpointName, float, float],
) -> None:
    architecture, name, gib, percent = case

    assert from_shapes(architecture, name) / GIB == pytest.approx(gib, rel=percent / 100)


def test_what_vllm_loads_of_inkling_without_drafts_and_towers() -> None:
    # 1,764.0 GiB were served of the published 1,773.9.
    assert sum(lines(INKLING).values()) / GIB == pytest.approx(1764.0, abs=0.1)


def test_the_towers_are_as_large_as_measured() -> None:
    found = lines(INKLING, modalities=EVERYTHING)

    assert (found["Image tower"] + found["Audio tower"]) / GIB == pytest.approx(0.17, abs=0.005)
    assert "Audio tower" not in lines(INKLING, modalities=(Modality.TEXT, Modality.IMAGE))


@pytest.mark.parametrize("architecture", [FLINT, INKLING], ids=["flint", "inkling"])
@pytest.mark.parametrize("name", [BF16, NVFP4])
def test_the_parts_are_the_checkpoint_together(
    architecture: Architecture, name: CheckpointName
) -> None:
    found = lines(architecture, name, draft=32, modalities=EVERYTHING)

    assert sum(found.values()) == checkpoint(architecture, name).bytes


def test_only_the_drafts_in_use_are_loaded() -> None:
    sliding, full = (lines(INKLING, draft=depths) for depths in (1, 2))
    layer = 3 * 6144 * 24_576 + 6144 * 64 * (128 + 16 + 128)

    assert sliding["Draft layers"] == 2 * (layer + 6144 * 16 * 256)
    assert full["Draft layers"] - sliding["Draft layers"] == 2 * (layer + 6144 * 8 * 256)
    assert sliding["Draft inputs"] == 2 * 2 * 6144 * 6144
    assert lines(INKLING, draft=8) == lines(INKLING, draft=9)
    assert "Draft layers" not in lines(INKLING)


def test_tensor_parallelism_cuts_what_is_not_replicated() -> None:
    one, eighth = lines(INKLING), lines(INKLING, layout=Layout(tensor=8))

    assert eighth["Embedding, replicated"] == one["Embedding"] == 201_024 * 6144 * 2
    assert eighth["Routers, replicated"] == one["Routers"]
    for item in ("Output head", "Attention", "Dense MLP", "Routed experts", "Shared experts"):
        assert eighth[item] == -(-one[item] // 8)


def test_a_rank_holds_one_kv_head_at_least() -> None:
    quarter, eighth = (lines(FLINT, layout=Layout(tensor=ranks)) for ranks in (4, 8))

    assert quarter["KV projections"] == lines(FLINT)["KV projections"] // 4
    assert eighth["KV projections, replicated"] == quarter["KV projections"]


def test_whole_experts_go_to_the_ranks_of_expert_parallelism() -> None:
    layout = Layout(tensor=8, data=2, expert=True, nodes=2)
    spread, cut = lines(INKLING, layout=layout), lines(INKLING, layout=Layout(tensor=8))

    assert spread["Routed experts"] * 2 == cut["Routed experts"]
    assert spread["Shared experts"] == cut["Shared experts"]


def test_experts_that_do_not_divide_are_padded() -> None:
    layout = Layout(tensor=3, expert=True)
    per_expert = lines(FLINT)["Routed experts"] // 256

    assert lines(FLINT, layout=layout)["Routed experts"] == 86 * per_expert


def test_the_fullest_stage_of_a_pipeline_counts() -> None:
    halves = lines(INKLING, layout=Layout(tensor=8, pipeline=2, nodes=2))
    whole = lines(INKLING, layout=Layout(tensor=8))

    # 33 layers each. The last stage has only sparse ones, the first has both that are dense.
    assert halves["Routed experts"] == -(-whole["Routed experts"] * 33 // 64)
    assert "Dense MLP" not in halves
    assert "Embedding, replicated" not in halves
    assert halves["Output head"] == whole["Output head"]


def test_a_layer_in_bfloat16_may_be_on_any_stage() -> None:
    layout = Layout(tensor=8, pipeline=2, nodes=2)
    layer = 256 * 3 * 6144 * 3072

    # The first stage is the fullest, as it has the embedding: 31 of the 64 layers with experts,
    # quantized, and what the one in bfloat16 has above that.
    expected = (31 * layer * 9 // 16 + layer * 23 // 16) // 8
    assert lines(INKLING, NVFP4, layout)["Routed experts"] == expected


def test_a_tied_embedding_is_on_the_first_and_the_last_stage() -> None:
    wire = tiny_architecture(tiedEmbedding=True, checkpoints=[{"name": "BF16", "bytes": 9_000_000}])
    architecture = msgspec.convert(wire, Architecture)
    found = lines(architecture, layout=Layout(pipeline=4))

    assert "Output head" not in found
    assert found["Embedding"] == 2048 * 256 * 2


def test_a_smaller_checkpoint_than_the_shapes_is_shared_out_in_proportion() -> None:
    architecture = msgspec.convert(tiny_architecture(), Architecture)
    size = from_shapes(architecture, BF16) * 3 // 4
    smaller = msgspec.structs.replace(
        architecture, checkpoints=(Checkpoint(name=BF16, bytes=size),)
    )
    found = lines(smaller)

    assert sum(found.values()) == size
    assert found["Attention"] == pytest.approx(lines(architecture)["Attention"] * 3 / 4, rel=0.001)


def test_what_a_checkpoint_calls_replicated_is_on_every_rank() -> None:
    architecture = msgspec.convert(
        tiny_architecture(
            checkpoints=[{"name": "BF16", "bytes": 9_000_000, "replicatedBytes": 999}]
        ),
        Architecture,
    )
    found = lines(architecture, layout=Layout(tensor=2))

    assert found["Further weights, replicated"] == 999


def test_the_format_holds_for_the_matrices_that_have_it() -> None:
    inkling, flint = lines(INKLING, NVFP4), lines(FLINT, NVFP4)

    assert inkling["Attention"] == lines(INKLING)["Attention"]
    assert flint["Attention"] == lines(FLINT)["Attention"] * 9 // 32
    assert flint["Embedding"] == lines(FLINT)["Embedding"]


def test_parts_say_how_they_divide() -> None:
    parts = weight_parts(INKLING, checkpoint(INKLING, BF16), draft=1)

    assert {part.name for part in parts if part.division is Division.REPLICATED} == {
        "Embedding",
        "Routers",
        "Draft inputs",
    }
    assert [part.name for part in parts if part.division is Division.EXPERT] == ["Routed experts"]


def test_a_line_of_each_component_once() -> None:
    parts = weight_parts(INKLING, checkpoint(INKLING, NVFP4), draft=4, modalities=EVERYTHING)
    items = gpu_weights(parts, INKLING, Layout(tensor=8))

    assert len({item.item for item in items}) == len(items)
    assert total(items) < 592e9 / 8 + 3 * GIB
