"""A model that serves: what a person sees while it starts, and who can talk to it then."""

import pytest
from tests.support import manifests
from tests.support.demo.inside import chat_inside
from tests.support.fixtures import Engine
from tests.support.install import Images
from tests.support.kube import COMMON_KINDS, MODEL, POD, SCALER, SLICE, Kube, conditions, owner_uid
from tests.support.openai_access import client
from tests.support.phases import Phase
from tests.support.shown import columns

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

QUESTION = "Tell me about the node."


def test_get_shows_the_promised_columns(shared_engine: Engine, kube: Kube) -> None:
    narrow = columns(kube.kubectl("get", "im", shared_engine.name, "-n", shared_engine.namespace))
    assert list(narrow) == ["NAME", "READY", "REPLICAS", "PLAN", "CACHE-HIT", "ENDPOINT", "AGE"]
    assert narrow["READY"] == "True"
    assert narrow["REPLICAS"] == "1"
    assert narrow["ENDPOINT"] == shared_engine.url
    assert "CPU" in narrow["PLAN"]
    assert "2048 ctx" in narrow["PLAN"]


def test_get_wide_adds_gpu_context_and_reason(shared_engine: Engine, kube: Kube) -> None:
    table = kube.kubectl("get", "im", shared_engine.name, "-n", shared_engine.namespace, "-o=wide")
    wide = columns(table)
    assert {"GPU", "CONTEXT", "REASON"} <= wide.keys()
    assert wide["CONTEXT"] == "2048"
    assert wide["REASON"] == "Serving"


def test_category_and_short_name_list_the_model(shared_engine: Engine, kube: Kube) -> None:
    for kind in ("im", "ai", "inferencemodels.kindling.dev"):
        assert shared_engine.name in kube.kubectl("get", kind, "-n", shared_engine.namespace)


def first_with(phases: list[Phase], condition: str, reason: str) -> Phase:
    """The first phase in which the condition has the reason."""
    for phase in phases:
        found = phase.conditions.get(condition)
        if found is not None and found.reason == reason:
            return phase
    seen = [str(phase.conditions.get(condition)) for phase in phases]
    raise AssertionError(f"{condition} never had the reason {reason}: {seen}")


def test_while_it_starts_a_person_reads_what_it_waits_for(shared_engine: Engine) -> None:
    phases = shared_engine.recording.phases
    loading = first_with(phases, "Progressing", "Loading")
    assert columns(loading.narrow)["READY"] == "False"
    assert columns(loading.wide)["REASON"] == loading.conditions["Ready"].reason
    assert loading.conditions["Progressing"].message.startswith("0 of 1 replicas of shared-")
    assert loading.conditions["Accepted"].status == "True"
    assert loading.conditions["Scheduled"].status == "True"
    assert loading.conditions["Available"].reason == "NoReadyReplica"
    assert "Progressing" in loading.described
    assert loading.conditions["Progressing"].message in " ".join(loading.described.split())


def test_the_endpoint_is_named_before_it_serves(shared_engine: Engine) -> None:
    accepted = first_with(shared_engine.recording.phases, "Progressing", "Loading")
    assert columns(accepted.narrow)["ENDPOINT"] == shared_engine.url


def test_progress_ends_with_complete(shared_engine: Engine) -> None:
    progress = shared_engine.recording.of("Progressing")
    assert (progress[-1].status, progress[-1].reason) == ("False", "Complete")
    ready = shared_engine.recording.of("Ready")
    assert [each.status for each in ready].count("True") == 1, "Ready went back and forth"
    assert ready[-1].message == f"1 of 1 replicas generate tokens at {shared_engine.url}."


def test_status_is_not_written_at_the_rate_of_a_clock(shared_engine: Engine) -> None:
    phases = shared_engine.recording.phases
    assert len(phases) <= 12, str(shared_engine.recording)


def test_events_tell_the_story_once(shared_engine: Engine, kube: Kube) -> None:
    events = kube.events(shared_engine.namespace, shared_engine.name)
    reasons = [event["reason"] for event in events]
    for wanted in ("PlanChosen", "ReplicaReady"):
        assert reasons.count(wanted) == 1, reasons
    assert all(event["reportingController"] == "kindling.dev/operator" for event in events)
    described = kube.kubectl("describe", "im", shared_engine.name, "-n", shared_engine.namespace)
    assert "PlanChosen" in described
    assert "2048 ctx" in next(e["note"] for e in events if e["reason"] == "PlanChosen")


def test_a_healthy_start_leaves_no_warning_and_no_restart(
    shared_engine: Engine, kube: Kube
) -> None:
    assert shared_engine.warnings == ()
    selector = f"{names.LABEL_MODEL}={shared_engine.name}"
    (pod,) = kube.find(POD, shared_engine.namespace, selector=selector)
    assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0]


def test_ready_means_a_token(shared_engine: Engine, kube: Kube) -> None:
    found = kube.have(MODEL, shared_engine.name, shared_engine.namespace)
    assert found["status"]["readyReplicas"] == 1
    with client(kube, shared_engine.name, shared_engine.namespace) as api:
        assert [model.id for model in api.models.list()] == [shared_engine.name]


def test_the_openai_client_gets_a_completion(shared_engine: Engine, kube: Kube) -> None:
    with client(kube, shared_engine.name, shared_engine.namespace) as api:
        answer = api.chat.completions.create(
            model=shared_engine.name,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=12,
        )
    assert answer.usage is not None
    assert 1 <= answer.usage.completion_tokens <= 12
    assert answer.choices[0].message.content


def test_the_openai_client_gets_a_stream(shared_engine: Engine, kube: Kube) -> None:
    with client(kube, shared_engine.name, shared_engine.namespace) as api:
        stream = api.chat.completions.create(
            model=shared_engine.name,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=64,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        chunks = [chunk.choices[0] for chunk in stream if chunk.choices]
    assert "".join(chunk.delta.content or "" for chunk in chunks)
    assert chunks[-1].finish_reason == "length"
    assert len(chunks) >= 2


def test_a_restricted_pod_reaches_it_by_name(
    shared_engine: Engine, kube: Kube, operator: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    model = kube.have(MODEL, shared_engine.name, shared_engine.namespace)
    assert model["status"]["endpoint"] == shared_engine.url
    chat_inside(kube, shared_engine.namespace, model, image=operator.runtime_cpu)
    told = capsys.readouterr().out
    assert "in one piece" in told
    assert "streamed" in told


def test_every_child_is_owned_and_labelled(shared_engine: Engine, kube: Kube) -> None:
    model = kube.have(MODEL, shared_engine.name, shared_engine.namespace)
    selector = f"{names.LABEL_MODEL}={shared_engine.name}"
    for kind in COMMON_KINDS:
        children = kube.find(kind, shared_engine.namespace, selector=selector)
        assert children, f"no {kind.kind} carries {selector}"
        for child in children:
            assert owner_uid(child) == model["metadata"]["uid"]
            assert child["metadata"]["labels"][names.LABEL_MANAGED_BY] == names.MANAGED_BY


def test_the_users_object_is_left_alone(shared_engine: Engine, kube: Kube) -> None:
    metadata = kube.have(MODEL, shared_engine.name, shared_engine.namespace)["metadata"]
    assert "finalizers" not in metadata
    assert set(metadata.get("annotations", {})) <= {
        "kubectl.kubernetes.io/last-applied-configuration"
    }


def test_the_service_leads_to_the_ready_pod_only(shared_engine: Engine, kube: Kube) -> None:
    namespace = shared_engine.namespace
    slices = kube.find(
        SLICE, namespace, selector=f"kubernetes.io/service-name={shared_engine.name}"
    )
    targets = [
        endpoint["targetRef"]["name"] for each in slices for endpoint in each["endpoints"] or []
    ]
    pods = kube.find(POD, namespace, selector=f"{names.LABEL_MODEL}={shared_engine.name}")
    assert targets == [pod["metadata"]["name"] for pod in pods]


def test_the_serving_pod_is_not_root_and_writes_nowhere(shared_engine: Engine, kube: Kube) -> None:
    selector = f"{names.LABEL_MODEL}={shared_engine.name}"
    (pod,) = kube.find(POD, shared_engine.namespace, selector=selector)
    (engine,) = pod["spec"]["containers"]
    assert engine["name"] == names.ENGINE_CONTAINER
    assert engine["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] == manifests.USER
    assert engine["image"].partition("@")[2], "the image is not given by digest"


def test_an_autoscaler_reads_and_scales_the_smallest_object(
    shared_engine: Engine, kube: Kube
) -> None:
    namespace = shared_engine.namespace
    kube.apply(manifests.scaler("shared", namespace, target=shared_engine.name, most=1))
    found = kube.wait_condition("shared", namespace, type="AbleToScale", seconds=90, kind=SCALER)
    assert conditions(found)["AbleToScale"].reason == "SucceededGetScale"
    assert found["status"]["currentReplicas"] == 1
    kube.delete(SCALER, "shared", namespace)


def test_kubectl_scale_speaks_to_the_object(shared_engine: Engine, kube: Kube) -> None:
    out = kube.kubectl(
        "scale", f"im/{shared_engine.name}", "--replicas=1", "-n", shared_engine.namespace
    )
    assert out == f"inferencemodel.kindling.dev/{shared_engine.name} scaled\n"
    scale = kube.kubectl(
        "get",
        "im",
        shared_engine.name,
        "-n",
        shared_engine.namespace,
        "--subresource=scale",
        "-o=jsonpath={.spec.replicas} {.status.replicas} {.status.selector}",
    )
    selector = f"{names.LABEL_MODEL}={shared_engine.name},{names.LABEL_ROLE}={names.ROLE_LEADER}"
    assert scale == f"1 1 {selector}"
