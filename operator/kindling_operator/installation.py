"""What an installation of this release decides with: its catalogs, and the values it was given."""

from __future__ import annotations

from kindling_operator import catalog
from kindling_operator.catalog import gpus, runtimes
from kindling_operator.model.snapshot import Environment


def environment(
    *,
    cuda_image: str,
    cpu_image: str,
    image_pull_policy: str = "IfNotPresent",
    image_pull_secrets: tuple[str, ...] = (),
    name_foreign_holders: bool = False,
    development_store: bool = False,
    prove_endpoint: bool = True,
    cache_claim: str = "",
    cache_max_bytes: str = "",
    described: str = "",
) -> Environment:
    """The operator's and the command line's alike; `described` are further runtime images (YAML).

    Raises `CatalogError` for a broken catalog or description.
    """
    return Environment(
        cuda_image=cuda_image,
        cpu_image=cpu_image,
        catalog=catalog.load_all(),
        runtimes=runtimes.load_all(runtimes.decode_all(described)),
        gpus=gpus.load_all(),
        speed=gpus.load_speed(),
        image_pull_policy=image_pull_policy,
        image_pull_secrets=image_pull_secrets,
        name_foreign_holders=name_foreign_holders,
        development_store=development_store,
        prove_endpoint=prove_endpoint,
        cache_claim=cache_claim,
        cache_max_bytes=cache_max_bytes,
    )
