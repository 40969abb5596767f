"""The GPU products that the speed model knows, and what engines were measured to need on them."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, TypeVar

import msgspec
import yaml

from kindling_operator.catalog import CatalogError
from kindling_operator.model.gpu import GpuFacts, SpeedFacts

_Facts = TypeVar("_Facts")

MEASURED_FIELDS: Final = ("memoryBandwidth", "linkBandwidth", "linkLatencyUs", "bf16Flops")
"""Fields of a GPU that need a source."""


@cache
def load_all() -> Mapping[str, GpuFacts]:
    """What is known of each product, by the value of nvidia.com/gpu.product.

    Raises `CatalogError` for a file that is none, and for a product that two entries name.
    """
    return by_product(_decode("gpus.yaml", tuple[GpuFacts, ...]))


@cache
def load_speed() -> SpeedFacts:
    """What engines need beyond reading bytes; raises `CatalogError` for a file without it."""
    return _decode("speed.yaml", SpeedFacts)


def by_product(facts: tuple[GpuFacts, ...]) -> dict[str, GpuFacts]:
    """Each product's facts; raises `CatalogError` for a product that two entries name."""
    found: dict[str, GpuFacts] = {}
    for each in facts:
        for product in each.products:
            if product in found:
                raise CatalogError(
                    f"catalog/gpus.yaml: {product} is in {found[product].name} and {each.name}:"
                    " remove it from one"
                )
            found[product] = each
    return found


def _decode(file: str, kind: type[_Facts]) -> _Facts:
    text = resources.files(__package__).joinpath(file).read_text("utf-8")
    try:
        return msgspec.convert(yaml.safe_load(text), kind)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogError(f"catalog/{file}: {error}") from error
