"""The CRD on a real API server: what it takes, what it refuses, and the words it uses.

These tests need no node and no operator, so they have a control plane of their own.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import yaml
from msgspec import structs
from tests.support.apiserver import ControlPlane, control_plane, programs
from tests.support.kube import MODEL, SCALER, Kube, KubectlError, Object
from tests.support.manifests import model, scaler
from tests.support.onenode import ROOT
from tests.support.refusals import BAD_NAMES, FLINT, ILL_TYPED, IllTyped, Refusal
from tests.support.refusals_by_rule import REFUSALS
from tests.support.waiting import until

from kindling_operator.model import names
from kindling_operator.model.conditions import (
    ConditionStatus,
    ConditionType,
    Reason,
    new_condition,
)
from kindling_operator.model.status import (
    AttentionBackend,
    Basis,
    BetterPlan,
    CacheStatus,
    GpuStatus,
    HitRate,
    InferenceModelStatus,
    KVCacheStatus,
    MemoryItem,
    ParallelismStatus,
    PlanStatus,
    RejectedOption,
    ScalingStatus,
    StoreState,
    StoreStatus,
)

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "default"
CRD: Final = ROOT / "crds" / "kindling.dev_inferencemodels.yaml"
EVERY_FIELD: Final = ROOT / "tests" / "support" / "every_field.yaml"

EXAMPLES: Final = sorted((ROOT / "docs" / "examples").glob("*.yaml"))

SCALER_SECONDS: Final = 90
"""The autoscaler looks every 15 s, and it learns of a new resource within 30 s."""


FULL_STATUS: Final = InferenceModelStatus(
    observed_generation=3,
    endpoint="http://reported.default.svc:8000/v1",
    replicas=2,
    ready_replicas=1,
    updated_replicas=2,
    draining_replicas=0,
    selector="kindling.dev/model=reported",
    plan=PlanStatus(
        digest="9c41",
        revision="reported-9c41",
        replan="2026-11-29T22:30:00Z",
        summary="8x NVIDIA-B200 in one node, NVFP4, TP8",
        checkpoint="NVFP4",
        gpu=GpuStatus(product="NVIDIA-B200", architecture="amd64", per_replica=8),
        parallelism=ParallelismStatus(tensor=8),
        context_length=262144,
        kv_cache=KVCacheStatus(
            blocks=1000, blocks_per_request=37, tokens=7_000_000, full_context_requests="27.0"
        ),
        memory_per_gpu=(MemoryItem(item="Weights", bytes=2**36, basis=Basis.MEASURED),),
        memory_per_pod=(MemoryItem(item="Engine", bytes=2**33, basis=Basis.ESTIMATED),),
        attention_backends=(AttentionBackend(group="full", backend="FLASHINFER"),),
        rejected=(RejectedOption(option="BF16 TP8", reason="WeightsDoNotFit", message="short"),),
        rejected_total=21,
        better=BetterPlan(reason="FewerGPUs", message="4 instead of 8."),
    ),
    cache=CacheStatus(
        hit_rate=HitRate(total="0.75", device="0.40", host="0.25", object_store="0.10"),
        object_store=StoreStatus(state=StoreState.CLOSED),
    ),
    scaling=ScalingStatus(desired=2, reason="Steady", message="2 replicas are enough."),
    conditions=(
        new_condition(
            ConditionType.READY,
            ConditionStatus.TRUE,
            reason=Reason.SERVING,
            message="2 of 2 replicas generate tokens.",
            generation=3,
            now=datetime(2026, 11, 29, tzinfo=UTC),
        ),
    ),
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("crd")) as found:
        yield found


@pytest.fixture(scope="module")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    """A cluster that has the CRD."""
    found = Kube(
        {
            "KUBECONFIG": str(plane.kubeconfig()),
            "PATH": f"{programs()}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(plane.folder),
        }
    )
    found.kubectl("apply", "--server-side", "-f", str(CRD))
    found.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRD))
    yield found
    found.close()


@pytest.mark.parametrize("name", REFUSALS)
def test_a_broken_rule_is_refused_with_its_sentence(kube: Kube, name: str) -> None:
    _expect_refusal(kube, name, REFUSALS[name])


@pytest.mark.parametrize("name", ILL_TYPED)
def test_an_ill_typed_field_is_refused_by_name(kube: Kube, name: str) -> None:
    _expect_refusal(kube, name, ILL_TYPED[name])


def _expect_refusal(kube: Kube, name: str, case: Refusal | IllTyped) -> None:
    slug = re.sub("[^a-z]+", "-", name.lower())
    message = kube.refused(model(slug, NAMESPACE, case.spec))
    assert message == f'The InferenceModel "{slug}" is invalid: {case.by_server}\n'


@pytest.mark.parametrize(("name", "sentence"), BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_a_name_that_no_service_can_have_is_refused(kube: Kube, name: str, sentence: str) -> None:
    assert kube.refused(model(name, NAMESPACE, FLINT)) == (
        f'The InferenceModel "{name}" is invalid: metadata.name: Invalid value: {sentence}\n'
    )


def test_an_unknown_field_is_refused_by_name(kube: Kube) -> None:
    message = kube.refused(model("flint", NAMESPACE, {**FLINT, "replica": 2}))
    assert message == (
        'Error from server (BadRequest): error when creating "STDIN": InferenceModel in version'
        ' "v1alpha1" cannot be handled as a InferenceModel: strict decoding error: unknown field'
        ' "spec.replica"\n'
    )


def test_the_model_cannot_be_exchanged(kube: Kube) -> None:
    kube.apply(model("pinned", NAMESPACE, FLINT))
    assert kube.refused(model("pinned", NAMESPACE, {"model": {"name": "inkling"}})) == (
        'The InferenceModel "pinned" is invalid: spec.model.name: Invalid value: "inkling": is'
        " immutable: create another InferenceModel for another model\n"
    )


def test_the_smallest_object_is_stored_with_its_defaults(kube: Kube) -> None:
    kube.apply(model("smallest", NAMESPACE, FLINT))
    assert kube.have(MODEL, "smallest", NAMESPACE)["spec"] == {
        "model": {"name": "flint", "checkpoint": "Auto"},
        "serving": {"concurrency": 1, "frontend": "Python", "speculation": {"mode": "Auto"}},
        "endpoint": {"port": 8000, "gateway": "Router"},
        "replicas": 1,
        "rollout": {"drainDeadline": "10m", "onFailure": "Rollback"},
    }


def test_every_field_is_stored_as_written(kube: Kube) -> None:
    spec = yaml.safe_load(EVERY_FIELD.read_text())
    kube.apply(model("everything", NAMESPACE, spec))
    stored = kube.have(MODEL, "everything", NAMESPACE)["spec"]
    spec["cache"]["objectStore"]["caBundle"]["key"] = "ca.crt"
    assert stored == spec


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_of_the_docs_is_taken(kube: Kube, path: Path) -> None:
    assert "created (server dry run)" in kube.kubectl("apply", "--dry-run=server", "-f", str(path))


@pytest.mark.parametrize(
    "path",
    [
        "im",
        "im.spec",
        "im.spec.model",
        "im.spec.model.weights",
        "im.spec.model.custom",
        "im.spec.model.custom.attention",
        "im.spec.serving",
        "im.spec.placement",
        "im.spec.cache",
        "im.spec.cache.objectStore",
        "im.spec.cache.objectStore.identity",
        "im.spec.cache.objectStore.identity.aws",
        "im.status",
        "im.status.plan",
        "im.status.conditions",
    ],
)
def test_explain_reads_like_documentation(kube: Kube, path: str) -> None:
    text = kube.kubectl("explain", path)
    description = text.split("DESCRIPTION:\n", 1)[1].split("FIELDS:\n")[0].strip()
    assert description.endswith(".")
    parts = re.split(r"^  (\w+)\t", text.split("FIELDS:\n", 1)[1], flags=re.MULTILINE)
    fields = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert fields
    own = {"apiVersion", "kind", "metadata"}
    assert [name for name in fields.keys() - own if not fields[name].strip().endswith(".")] == []


def test_an_autoscaler_reads_the_smallest_object(kube: Kube) -> None:
    kube.apply(model("scaled", NAMESPACE, FLINT))
    kube.apply(scaler("scaled", NAMESPACE, target="scaled", most=3))

    def verdict() -> tuple[str, str]:
        found = kube.have(SCALER, "scaled", NAMESPACE).get("status", {}).get("conditions", [])
        able = next((c for c in found if c["type"] == "AbleToScale"), {"status": "", "reason": ""})
        return able["status"], able["reason"]

    until(
        "the autoscaler to read the scale",
        lambda: verdict() == ("True", "SucceededGetScale"),
        seconds=SCALER_SECONDS,
        show=lambda: str(verdict()),
    )


def test_kubectl_scale_changes_replicas(kube: Kube) -> None:
    kube.apply(model("by-hand", NAMESPACE, FLINT))
    kube.kubectl("scale", "im/by-hand", "--replicas=3")
    assert kube.have(MODEL, "by-hand", NAMESPACE)["spec"]["replicas"] == 3


def test_the_scale_subresource_tells_replicas_and_selector(kube: Kube) -> None:
    kube.apply(model("counted", NAMESPACE, FLINT))
    selector = "kindling.dev/model=counted,kindling.dev/role=leader"
    _write_status(kube, "counted", {"replicas": 2, "selector": selector})
    path = f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/{names.PLURAL}/counted/scale"
    scale = yaml.safe_load(kube.kubectl("get", "--raw", path))
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 2, "selector": selector}


def test_columns_answer_whether_it_serves_on_what_and_where(kube: Kube) -> None:
    kube.apply(model("shown", NAMESPACE, FLINT))
    _write_status(
        kube,
        "shown",
        {
            "replicas": 2,
            "endpoint": "http://shown.default.svc:8000/v1",
            "cache": {"hitRate": {"total": "0.75"}},
            "plan": _plan(summary="2x_H200", gpu={"product": "NVIDIA-H200"}),
            "conditions": [_condition("Ready", "Serving")],
        },
    )
    header, row = kube.kubectl("get", "im", "shown").splitlines()
    assert header.split() == ["NAME", "READY", "REPLICAS", "PLAN", "CACHE-HIT", "ENDPOINT", "AGE"]
    shown = ["shown", "True", "2", "2x_H200", "0.75", "http://shown.default.svc:8000/v1"]
    assert row.split()[:-1] == shown
    header, row = kube.kubectl("get", "ai", "shown", "-o", "wide").splitlines()
    assert header.split()[6:-1] == ["GPU", "CONTEXT", "REASON"]
    assert row.split()[6:-1] == ["NVIDIA-H200", "131072", "Serving"]


def test_writers_of_status_keep_their_own_conditions(kube: Kube) -> None:
    """Lists of status are maps: two managers own their entries, and one that leaves takes its."""
    kube.apply(model("shared", NAMESPACE, FLINT))
    ours = [_condition("Accepted", "SpecAccepted"), _condition("Ready", "Serving")]
    _write_status(kube, "shared", {"observedGeneration": 1, "conditions": ours})
    _write_status(
        kube, "shared", {"conditions": [_condition("other.dev/Billed", "Paid")]}, manager="billing"
    )
    assert _types(kube, "shared") == ["Accepted", "Ready", "other.dev/Billed"]
    _write_status(kube, "shared", {"observedGeneration": 1, "conditions": ours[:1]})
    assert _types(kube, "shared") == ["Accepted", "other.dev/Billed"]
    owners = {
        entry["manager"]: entry["fieldsV1"]["f:status"]["f:conditions"]
        for entry in kube.have(MODEL, "shared", NAMESPACE)["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    }
    assert set(owners[names.STATUS_FIELD_MANAGER]) == {'k:{"type":"Accepted"}'}
    assert set(owners["billing"]) == {'k:{"type":"other.dev/Billed"}'}


def test_another_writer_of_our_condition_is_a_conflict(kube: Kube) -> None:
    kube.apply(model("contested", NAMESPACE, FLINT))
    _write_status(kube, "contested", {"conditions": [_condition("Ready", "Serving")]})
    with pytest.raises(KubectlError, match='conflict with "kindling-status"'):
        _write_status(
            kube, "contested", {"conditions": [_condition("Ready", "Paid")]}, manager="billing"
        )


def test_every_field_of_status_is_stored_as_written(kube: Kube) -> None:
    kube.apply(model("reported", NAMESPACE, FLINT))
    wire = FULL_STATUS.to_wire()
    unsaid = {field.encode_name for field in structs.fields(FULL_STATUS)} - set(wire)
    assert unsaid == set()
    _write_status(kube, "reported", wire)
    assert kube.have(MODEL, "reported", NAMESPACE)["status"] == wire


def test_items_of_a_budget_merge_by_name(kube: Kube) -> None:
    kube.apply(model("budget", NAMESPACE, FLINT))
    weights = {"item": "Weights", "bytes": 79_580_000_000, "basis": "Exact"}
    graphs = {"item": "CUDAGraphs", "bytes": 2**30, "basis": "Measured"}
    _write_status(kube, "budget", {"plan": _plan(memoryPerGPU=[weights, graphs])})
    _write_status(kube, "budget", {"plan": _plan(memoryPerGPU=[graphs])})
    assert kube.have(MODEL, "budget", NAMESPACE)["status"]["plan"]["memoryPerGPU"] == [graphs]


def _write_status(
    kube: Kube, name: str, status: Object, *, manager: str = names.STATUS_FIELD_MANAGER
) -> None:
    """What the operator does: server-side apply of the status alone."""
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "status": status,
    }
    kube.kubectl(
        *("apply", "--server-side", "--subresource=status", f"--field-manager={manager}"),
        *("-f", "-"),
        stdin=yaml.safe_dump(manifest),
    )


def _types(kube: Kube, name: str) -> list[str]:
    return [c["type"] for c in kube.have(MODEL, name, NAMESPACE)["status"]["conditions"]]


def _condition(kind: str, reason: str) -> Object:
    return {
        "type": kind,
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-29T12:00:00Z",
        "reason": reason,
        "message": "",
    }


def _plan(**fields: object) -> Object:
    kv_cache = {
        "blocks": 1000,
        "blocksPerRequest": 37,
        "tokens": 7_000_000,
        "fullContextRequests": "27.0",
    }
    return {
        "digest": "9c41",
        "revision": "flint-9c41",
        "summary": "2x_H200",
        "checkpoint": "BF16",
        "contextLength": 131072,
        "kvCache": kv_cache,
        **fields,
    }
