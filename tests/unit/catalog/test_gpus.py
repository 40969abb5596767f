"""The numbers of the speed model: every one has a source, every product one entry."""

import msgspec
import pytest
from msgspec import structs
from tests.support.builders import PRODUCTS

from kindling_operator import catalog
from kindling_operator.catalog import CatalogError, gpus
from kindling_operator.model.gpu import GpuFacts

ENTRIES = {facts.name: facts for facts in gpus.load_all().values()}


@pytest.mark.parametrize("facts", ENTRIES.values(), ids=ENTRIES)
def test_every_number_has_a_source(facts: GpuFacts) -> None:
    assert set(facts.sources) == set(gpus.MEASURED_FIELDS)
    assert all(facts.sources.values())


@pytest.mark.parametrize("facts", ENTRIES.values(), ids=ENTRIES)
def test_the_numbers_are_of_the_right_size(facts: GpuFacts) -> None:
    """A slip of a power of ten would reorder every plan."""
    assert 250e9 <= facts.memory_bandwidth <= 10e12
    assert 30e9 <= facts.link_bandwidth <= 1e12
    assert facts.link_bandwidth < facts.memory_bandwidth
    assert 50e12 <= facts.bf16_flops <= 3e15
    assert (facts.link_bandwidth >= 300e9) is facts.nvlink


@pytest.mark.parametrize(
    "product",
    [
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA-H100-PCIe",
        "NVIDIA-H100-NVL",
        "NVIDIA-H200",
        "NVIDIA-B200",
        "NVIDIA-B300",
        "NVIDIA-GB200",
        "NVIDIA-GB300",
        "NVIDIA-L40S",
        "NVIDIA-L4",
        "NVIDIA-A100-SXM4-40GB",
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "NVIDIA-GeForce-RTX-5090",
        "NVIDIA-GeForce-RTX-4090",
        "NVIDIA-GeForce-RTX-3090",
        "NVIDIA-GH200-480GB",
    ],
)
def test_a_product_is_known(product: str) -> None:
    assert product in gpus.load_all()


def test_capabilities_agree_with_what_nodes_say() -> None:
    known = {name: f"sm{major}{minor}" for name, (_, major, minor) in PRODUCTS.items()}

    told = {name: facts.capability for name, facts in gpus.load_all().items() if name in known}
    assert len(told) >= 4
    assert told == {name: known[name] for name in told}


def test_a_product_has_one_entry() -> None:
    twice = (ENTRIES["H200"], structs.replace(ENTRIES["B200"], products=("NVIDIA-H200",)))

    with pytest.raises(CatalogError, match="NVIDIA-H200 is in H200 and B200"):
        gpus.by_product(twice)


def test_the_last_speed_matches_everything() -> None:
    *special, last = gpus.load_speed().engines

    everything = {"layerUs", "source"}
    assert set(msgspec.to_builtins(last)) == everything
    assert all(set(msgspec.to_builtins(each)) > everything for each in special)


def test_a_model_of_the_speeds_is_one_of_the_catalog() -> None:
    entries = catalog.load_all().values()
    speed = gpus.load_speed()

    assert {each.architecture for each in speed.engines} - {None} == {
        entry.architecture.architecture for entry in entries
    }
    assert {each.architecture for each in speed.drafts} == {
        entry.architecture.architecture for entry in entries if entry.architecture.draft
    }
