"""Objects as people write them become typed ones."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest
import yaml
from tests.support.manifests import model
from tests.support.onenode import ROOT
from tests.support.refusals import FLINT, custom

from kindling_operator.model.api import InferenceModelSpec, OnFailure
from kindling_operator.model.api_cache import Admission, Sharing
from kindling_operator.model.api_model import CheckpointChoice, ModelName
from kindling_operator.model.api_serving import Frontend, Gateway, SpeculationMode
from kindling_operator.model.architecture import AttentionKind, CheckpointName, Device, Modality
from kindling_operator.model.conditions import Reason
from kindling_operator.model.parse import Invalid, ParsedModel, parse
from kindling_operator.model.status import MAX_LINE
from kindling_operator.schema.crd import root_schema
from kindling_operator.schema.structural import Schema

UUID = "11111111-2222-3333-4444-55555555AAAA"

WHOLE = (ROOT / "tests" / "support" / "every_field.yaml").read_text()


INKLING: Final[dict[str, Any]] = {
    "architecture": "InklingForConditionalGeneration",
    "hiddenSize": 6144,
    "vocabularySize": 201024,
    "attentionHeads": 64,
    "layers": 66,
    "intermediateSize": 24576,
    "attention": [
        {"name": "full", "kind": "Full", "layers": 11, "kvHeads": 8, "headSize": 128},
        {
            "name": "sliding",
            "kind": "Sliding",
            "layers": 55,
            "kvHeads": 16,
            "headSize": 128,
            "window": 512,
        },
        {
            "name": "conv",
            "kind": "Conv",
            "layers": 66,
            "kvHeads": 16,
            "headSize": 1024,
            "headSizeValue": 0,
            "window": 4,
            "blockTokens": 4,
        },
    ],
    "experts": {
        "count": 256,
        "perToken": 6,
        "layers": 64,
        "intermediateSize": 3072,
        "shared": {"count": 2, "intermediateSize": 3072},
    },
    "draft": {"depths": 8, "attentionGroup": "full", "convGroup": "conv"},
    "contextLength": 1048576,
    "devices": ["GPU"],
    "tensorParallelSizes": [1, 2, 4, 8],
    "modalities": ["Text", "Image", "Audio"],
}
"""Inkling's published shape: 66 layers, 1 in 6 full, a short convolution in each."""


def parsed(spec: dict[str, Any]) -> InferenceModelSpec:
    found = parse(model("flint", "ml", spec))
    assert isinstance(found, ParsedModel), found
    return found.spec


def test_the_smallest_object_has_every_default() -> None:
    spec = parsed(FLINT)
    assert (spec.model.name, spec.model.checkpoint) == (ModelName.FLINT, CheckpointChoice.AUTO)
    assert spec.model.checkpoint.pinned is None
    assert (spec.serving.concurrency, spec.serving.frontend) == (1, Frontend.PYTHON)
    assert spec.serving.speculation.mode is SpeculationMode.AUTO
    assert (spec.endpoint.port, spec.endpoint.gateway) == (8000, Gateway.ROUTER)
    assert spec.replicas == 1
    assert (spec.rollout.progress_deadline, spec.rollout.drain_deadline) == (None, "10m")
    assert spec.rollout.on_failure is OnFailure.ROLLBACK


def test_what_kindling_chooses_is_none() -> None:
    spec = parsed(FLINT)
    chosen = (
        spec.serving.context_length,
        spec.serving.modalities,
        spec.serving.served_name,
        spec.placement,
        spec.runtime,
        spec.scaling,
        spec.cache,
        spec.model.weights,
    )
    assert chosen == (None,) * len(chosen)


def test_the_whole_spec_is_read_and_written_back() -> None:
    written = yaml.safe_load(WHOLE)
    spec = parsed(written)
    assert msgspec.convert(msgspec.to_builtins(spec), InferenceModelSpec) == spec
    assert spec.serving.speculation.tokens == 4
    assert spec.serving.modalities == (Modality.TEXT, Modality.IMAGE, Modality.AUDIO)
    assert spec.placement is not None
    assert spec.placement.parallelism is not None
    assert spec.placement.parallelism.expert is True
    assert spec.placement.max_gpus_per_replica == 16
    assert spec.cache is not None
    assert spec.cache.object_store is not None
    store = spec.cache.object_store
    assert store.identity.providers == ("aws",)
    assert (store.sharing, store.admission) == (Sharing.NAMESPACE, Admission.SECOND_USE)
    assert store.ca_bundle is not None
    assert store.ca_bundle.key == "ca.crt"


def test_the_whole_spec_sets_every_field_but_its_alternatives() -> None:
    alternatives = {
        "spec.model.custom",
        "spec.placement.tolerations.value",
        "spec.placement.tolerations.tolerationSeconds",
        "spec.cache.objectStore.identity.aws.podIdentity",
        "spec.cache.objectStore.identity.gcp",
        "spec.cache.objectStore.identity.azure",
        "spec.cache.objectStore.identity.development",
        "spec.cache.objectStore.caBundle.key",
    }
    schema = root_schema()["properties"]["spec"]
    assert set(_unset(schema, yaml.safe_load(WHOLE), "spec")) == alternatives


def _unset(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """Paths of fields that the value leaves out; nothing below those."""
    if isinstance(value, list):
        schema, value = schema["items"], value[0]
    for name, part in schema.get("properties", {}).items():
        if name in value:
            yield from _unset(part, value[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}"


@pytest.mark.parametrize(
    ("uri", "identity"),
    [
        ("s3://kv", {"aws": {"roleArn": "arn:aws-cn:iam::123456789012:role/path/kv"}}),
        ("s3://kv", {"aws": {"podIdentity": {}}}),
        ("gs://kv", {"gcp": {"serviceAccount": "kv-cache@proj.iam.gserviceaccount.com"}}),
        ("gs://kv/a/b", {"gcp": {"direct": {}}}),
        (
            "az://kv",
            {
                "azure": dict.fromkeys(
                    ("clientId", "tenantId"), "11111111-2222-3333-4444-55555555AAAA"
                )
            },
        ),
        ("s3://kv", {"development": {}}),
        ("az://kv", {"development": {}}),
    ],
)
def test_each_cloud_has_its_identity(uri: str, identity: dict[str, Any]) -> None:
    spec = parsed({**FLINT, "cache": {"objectStore": {"uri": uri, "identity": identity}}})
    assert spec.cache is not None
    assert spec.cache.object_store is not None
    assert spec.cache.object_store.identity.providers == tuple(identity)


@pytest.mark.parametrize(
    "uri",
    [
        "hf://org/name",
        "s3://bucket/prefix",
        "gs://bucket",
        "az://container/prefix",
        "pvc://weights/flint",
        "file:///models/flint..v2",
    ],
)
def test_weights_come_from_six_kinds_of_place(uri: str) -> None:
    spec = parsed({"model": {"name": "flint", "weights": {"uri": uri}}})
    assert spec.model.weights is not None
    assert spec.model.weights.uri == uri


def test_a_hybrid_model_with_experts_and_draft_is_expressible() -> None:
    spec = parsed(custom(**INKLING))
    architecture = spec.model.custom
    assert architecture is not None
    assert architecture.attending_layers == 66
    assert [g.name for g in architecture.attending] == ["full", "sliding"]
    assert architecture.attention[2].kind is AttentionKind.CONV
    assert architecture.devices == (Device.GPU,)
    bf16 = architecture.checkpoint(CheckpointName.BF16)
    assert bf16 is not None
    assert bf16.bytes == 7 * 2**20
    assert architecture.checkpoint(CheckpointName.NVFP4) is None


def test_metadata_is_typed_and_only_our_annotations_stay() -> None:
    body = model("flint", "ml", FLINT)
    body["metadata"] |= {
        "uid": "d3b0",
        "generation": 3,
        "resourceVersion": "812",
        "creationTimestamp": "2026-11-29T22:00:00Z",
        "deletionTimestamp": "2026-11-29T23:00:00Z",
        "labels": {"team": "ml"},
        "annotations": {"kindling.dev/replan": "2026-11-29T22:30:00Z", "other.dev/a": "b"},
        "managedFields": [{"manager": "kubectl"}],
    }
    found = parse(body)
    assert isinstance(found, ParsedModel)
    metadata = found.metadata
    assert (metadata.key, metadata.uid) == (("ml", "flint"), "d3b0")
    assert (metadata.generation, metadata.resource_version) == (3, "812")
    assert metadata.created == datetime(2026, 11, 29, 22, tzinfo=UTC)
    assert metadata.deletion == datetime(2026, 11, 29, 23, tzinfo=UTC)
    assert metadata.annotations == {"kindling.dev/replan": "2026-11-29T22:30:00Z"}
    assert metadata.replan == "2026-11-29T22:30:00Z"


def test_a_word_that_status_cannot_hold_stays_a_word_of_its_own() -> None:
    words = [_annotated(word).metadata.replan for word in ("w" * 256, "w" * 257, "w" * 258)]

    assert words[0] == "w" * 256
    assert len(set(words)) == 3
    assert max(map(len, words)) <= MAX_LINE


def _annotated(word: str) -> ParsedModel | Invalid:
    body = model("flint", "ml", FLINT)
    body["metadata"]["annotations"] = {"kindling.dev/replan": word}
    return parse(body)


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x7f"])
def test_no_argument_carries_a_control_character(character: str) -> None:
    spec = {"model": {"name": "flint"}, "serving": {"extraArgs": [f"--seed=7{character}"]}}
    found = parse({"metadata": {"name": "flint"}, "spec": spec})
    assert isinstance(found, Invalid)
    assert found.reason is Reason.INVALID_SPEC


def test_an_argument_may_be_text_of_several_lines() -> None:
    spec = {"model": {"name": "flint"}, "serving": {"extraArgs": ["--x={\n\t1: 'ü'}"]}}
    assert isinstance(parse({"metadata": {"name": "flint"}, "spec": spec}), ParsedModel)


def test_a_stored_status_passes_as_it_is() -> None:
    body = model("flint", "ml", FLINT)
    body["status"] = {"replicas": 2, "ofANewerVersion": True}
    found = parse(body)
    assert isinstance(found, ParsedModel)
    assert found.status == {"replicas": 2, "ofANewerVersion": True}
