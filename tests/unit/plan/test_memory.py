"""The lines beside the weights: what measured runs say of them, and what replaces them."""

import msgspec
import pytest
from tests.support.builders import GIB, Cluster, catalog_spec, gpu_node
from tests.unit.plan.test_weights import inkling_cut

from kindling_operator import catalog
from kindling_operator.model.architecture import Architecture, Checkpoint, CheckpointName, Modality
from kindling_operator.model.conditions import ConditionType
from kindling_operator.model.layout import ONE_GPU, Layout
from kindling_operator.model.status import Basis, MemoryItem
from kindling_operator.plan.memory import (
    EngineLoad,
    cpu_pod_items,
    gpu_items,
    pod_items,
    shared_memory,
    storage_items,
    total,
    with_measured,
)

FLINT = catalog.load("flint").architecture
INKLING = catalog.load("inkling").architecture
LOAD = EngineLoad(batched_tokens=8192, sequences=8)
MIB = 1 << 20


def checkpoint(architecture: Architecture, name: str = "BF16") -> Checkpoint:
    found = architecture.checkpoint(CheckpointName(name))
    assert found is not None
    return found


def budget(items: tuple[MemoryItem, ...]) -> dict[str, tuple[int, Basis]]:
    return {item.item: (item.bytes, item.basis) for item in items}


H200 = 139.81 * GIB
"""What the three runs below had to divide: 0.9 of it is 125.83 GiB."""


def cut_of_inkling() -> Architecture:
    size = round(19.75 * GIB)
    checkpoints = (Checkpoint(name=CheckpointName.BF16, bytes=size),)
    return msgspec.structs.replace(inkling_cut(), checkpoints=checkpoints)


# Free for the KV cache on one H200 at 0.9 of the card, as vLLM logged it, in GiB.
FREE = {
    "Flint BF16": (FLINT, "BF16", 8192, 50.33),
    "Flint NVFP4": (FLINT, "NVFP4", 8192, 102.85),
    "Inkling cut to 12 layers": (cut_of_inkling(), "BF16", 2048, 105.30),
}


@pytest.mark.parametrize("case", FREE.values(), ids=FREE.keys())
def test_estimates_leave_less_than_vllm_had_and_not_much_less(
    case: tuple[Architecture, str, int, float],
) -> None:
    architecture, name, batched, free = case
    load = EngineLoad(batched_tokens=batched, sequences=8)
    items = gpu_items(architecture, checkpoint(architecture, name), ONE_GPU, load)

    left = (0.9 * H200 - total(items)) / GIB

    assert free - 1.0 < left < free


def test_an_estimate_carries_a_tenth() -> None:
    found = budget(gpu_items(FLINT, checkpoint(FLINT), ONE_GPU, LOAD))

    assert found["Activations"] == (8192 * 2048 * 2 * 25 * 11 // 10, Basis.ESTIMATED)
    assert found["CUDA graphs"] == (528 * MIB, Basis.ESTIMATED)


def test_one_gpu_has_nobody_to_talk_to() -> None:
    one = budget(gpu_items(INKLING, checkpoint(INKLING), ONE_GPU, LOAD))
    two = budget(gpu_items(INKLING, checkpoint(INKLING), Layout(tensor=2), LOAD))

    assert {"NCCL buffers", "Lamport buffers"} & one.keys() == set()
    assert {"NCCL buffers", "Lamport buffers"} <= two.keys()


@pytest.mark.parametrize(("batched", "gib"), [(2048, 0.14), (8192, 0.56), (32_768, 1.13)])
def test_lamport_buffers_are_as_the_source_makes_them(batched: int, gib: float) -> None:
    load = EngineLoad(batched_tokens=batched, sequences=8)
    found = budget(gpu_items(INKLING, checkpoint(INKLING), Layout(tensor=8), load))

    size, basis = found["Lamport buffers"]
    assert size / GIB == pytest.approx(gib, abs=0.006)
    assert basis is Basis.EXACT


def test_flint_has_no_lamport_buffers() -> None:
    found = budget(gpu_items(FLINT, checkpoint(FLINT), Layout(tensor=8), LOAD))

    assert "Lamport buffers" not in found


def test_drafts_and_inputs_beside_text_need_more() -> None:
    bare = gpu_items(INKLING, checkpoint(INKLING), Layout(tensor=8), LOAD)
    load = EngineLoad(
        batched_tokens=8192,
        sequences=8,
        draft=4,
        modalities=(Modality.TEXT, Modality.AUDIO),
    )
    full = gpu_items(INKLING, checkpoint(INKLING), Layout(tensor=8), load)

    assert budget(full).keys() - budget(bare).keys() == {
        "Draft layers",
        "Draft inputs, replicated",
        "Audio tower, replicated",
        "Encoder cache",
    }
    assert budget(full)["Logits"][0] == pytest.approx(5 * budget(bare)["Logits"][0], abs=5)
    assert budget(full)["CUDA graphs"][0] > budget(bare)["CUDA graphs"][0]


def test_experts_of_data_parallel_ranks_see_all_tokens() -> None:
    layout = Layout(tensor=8, data=2, expert=True, nodes=2)
    found = budget(gpu_items(INKLING, checkpoint(INKLING), layout, LOAD))

    assert found["Expert exchange"] == (-(-2 * 8192 * 6144 * 4 * 11 // 10), Basis.ESTIMATED)


ESTIMATED = gpu_items(FLINT, checkpoint(FLINT), ONE_GPU, LOAD)


def test_a_measured_value_replaces_the_estimate_and_says_so() -> None:
    measured = {"CUDA graphs": 50 * MIB, "Unknown": 1}
    found = budget(with_measured(ESTIMATED, measured))

    assert found["CUDA graphs"] == (50 * MIB, Basis.MEASURED)
    assert "Unknown" not in found
    assert found["Routed experts"][1] is Basis.EXACT


def test_measured_weights_are_one_line() -> None:
    size = round(74.27 * GIB)
    found = budget(with_measured(ESTIMATED, {"Weights": size}))

    assert next(iter(found.items())) == ("Weights", (size, Basis.MEASURED))
    assert "Routed experts" not in found


def test_measured_activations_hold_the_logits() -> None:
    found = budget(with_measured(ESTIMATED, {"Activations": 770 * MIB}))

    assert found["Activations"] == (770 * MIB, Basis.MEASURED)
    assert "Logits" not in found


def test_the_host_tier_is_in_shared_memory_once_for_all_ranks() -> None:
    eight = pod_items(checkpoint(INKLING), Layout(tensor=8))
    tiered = pod_items(checkpoint(INKLING), Layout(tensor=8), host_tier=200 * GIB)

    assert total(tiered) - total(eight) == 200 * GIB
    assert shared_memory(tiered) - shared_memory(eight) == 200 * GIB
    assert budget(tiered)["Host KV tier"] == (200 * GIB, Basis.EXACT)


def test_a_pod_needs_memory_for_its_own_gpus() -> None:
    one, eight = (pod_items(checkpoint(INKLING), Layout(tensor=ranks)) for ranks in (1, 8))
    two_nodes = pod_items(checkpoint(INKLING), Layout(tensor=8, pipeline=2, nodes=2))

    assert total(one) < total(eight) == total(two_nodes)
    assert budget(eight)["Page cache of weights"] == (32 * GIB, Basis.ESTIMATED)


def test_the_page_cache_holds_no_more_than_the_weights() -> None:
    small = Checkpoint(name=CheckpointName.BF16, bytes=MIB)

    assert budget(pod_items(small))["Page cache of weights"][0] == MIB


def test_a_measured_value_of_a_pod() -> None:
    found = budget(with_measured(pod_items(checkpoint(FLINT)), {"Processes": 9 * GIB}))

    assert found["Processes"] == (9 * GIB, Basis.MEASURED)


def test_weights_on_no_volume_are_ephemeral() -> None:
    assert total(storage_items(downloaded=5 * GIB)) - total(storage_items()) == 5 * GIB


def test_a_pod_on_cpu_holds_everything() -> None:
    found = budget(cpu_pod_items(checkpoint(FLINT), 3 * GIB))

    assert list(found) == ["Weights", "KV cache", "Processes", "Shared memory"]
    assert found["KV cache"] == (3 * GIB, Basis.EXACT)


def test_a_pod_asks_for_the_storage_of_its_kernels_and_logs() -> None:
    """A node whose disk is full of others' files does not get it."""
    roomy, full = (
        Cluster(nodes=(gpu_node("gpu-0", ephemeral=size),)).apply(catalog_spec("flint")).decide()
        for size in (100 * GIB, GIB // 2)
    )

    assert roomy.current is not None
    assert roomy.current.plan.pod.ephemeral == GIB
    assert full.current is None
    waits = full.verdict(ConditionType.SCHEDULED)
    assert waits is not None
    assert "1.0 GiB of ephemeral storage" in waits.message
