"""Nothing is silently ignored: every field of the spec changes what is made, or is refused."""

import json
from typing import Any

import pytest
from tests.support.builders import KEY, Cluster, cpu_node, gpu_node, tiny_architecture, tiny_spec
from tests.support.manifests import merged
from tests.support.spec_fields import CHANGES, ELSEWHERE, REFUSED, field_paths

from kindling_operator.model.conditions import Reason
from kindling_operator.plan.revision import wanted_hash
from kindling_operator.plan.unsupported import UNSUPPORTED

BASE = tiny_spec(
    tiny_architecture(
        devices=["GPU"],
        modalities=["Text", "Image"],
        checkpoints=[{"name": "BF16", "bytes": 5_781_504}, {"name": "NVFP4", "bytes": 5_000_000}],
    )
)


def cluster(patch: dict[str, Any]) -> Cluster:
    """The base spec with a patch, where two kinds of GPU are free."""
    nodes = [gpu_node("gpu-0", "NVIDIA-H200"), gpu_node("gpu-1", "NVIDIA-RTX-PRO-6000")]
    labelled = tuple(
        gpu_node(n.name, n.gpu_product, labels={**n.labels, "pool": "gpu"}) for n in nodes
    )
    return Cluster(nodes=(*labelled, cpu_node())).apply(merged(BASE, patch))


def made(patch: dict[str, Any]) -> str:
    """What would be applied, with the revision's name and digest blotted out."""
    found = cluster(patch)
    decision = found.decide()
    assert decision.current is not None, decision.verdicts
    text = json.dumps(found.manifests(), sort_keys=True)
    return text.replace(decision.current.hash, "HASH").replace(decision.current.inputs, "INPUTS")


def test_every_field_has_a_case() -> None:
    assert sorted({*REFUSED, *CHANGES, *ELSEWHERE}) == list(field_paths())


@pytest.mark.parametrize("path", CHANGES)
def test_field_changes_what_is_made(path: str) -> None:
    before, after = CHANGES[path]

    assert made(before) != made(after)


@pytest.mark.parametrize("path", REFUSED)
def test_field_is_refused_by_name(path: str) -> None:
    found = cluster(REFUSED[path])
    refused = found.decide().refused

    assert refused is not None
    assert refused.reason is Reason.NOT_YET_SUPPORTED
    named, _, _ = refused.message.partition(" ")
    assert path.startswith(named), refused.message
    assert " is not supported by this version: " in refused.message
    assert found.manifests() == ()


def test_another_content_of_the_weights_is_another_revision() -> None:
    first, second = (
        wanted_hash(cluster({"model": {"weights": {"revision": name}}}).models[KEY])  # type: ignore[arg-type]
        for name in ("one", "two")
    )

    assert first != second


SWITCHED_OFF = {
    "tiers of nothing": {"cache": {"hostMemory": 0, "encoderMemory": "0"}},
    "no speculation": {"serving": {"speculation": {"mode": "Disabled"}}},
    "what is there anyway": {
        "serving": {"frontend": "Python", "modalities": ["Text", "Image"]},
        "endpoint": {"gateway": "Router"},
    },
}


@pytest.mark.parametrize("patch", SWITCHED_OFF.values(), ids=SWITCHED_OFF.keys())
def test_a_field_that_asks_for_nothing_is_accepted_and_changes_nothing(
    patch: dict[str, Any],
) -> None:
    assert made(patch) == made({})


@pytest.mark.parametrize("entry", UNSUPPORTED, ids=lambda entry: entry.field)
def test_every_entry_of_the_table_is_needed(entry: Any) -> None:
    spec_of = [*REFUSED.values(), {"model": {"weights": {"uri": "s3://bucket/x"}}}]
    specs = [cluster(patch).models[KEY].spec for patch in spec_of]  # type: ignore[union-attr]

    alone = [
        spec
        for spec in specs
        if entry.given(spec) is not None
        and not any(o.given(spec) is not None for o in UNSUPPORTED if o is not entry)
    ]
    assert alone
