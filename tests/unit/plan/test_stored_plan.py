"""A plan that is stored answers for the fields that it depends on, and for no others."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.support.builders import Cluster, catalog_spec, environment, gpu_node, tiny_spec
from tests.support.manifests import merged
from tests.support.planning import kindling_plan, node
from tests.support.spec_fields import REFUSED

from kindling_operator.model.architecture import Capability, CapabilityStatus, Device
from kindling_operator.model.conditions import MESSAGE_BYTES, ConditionType, Reason, fit_message
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import Decision
from kindling_operator.model.status import InferenceModelStatus, PlanStatus
from kindling_operator.report.status import status
from kindling_operator.schema.crd import crd


def current(decision: Decision) -> str:
    assert decision.current is not None, decision.verdicts
    return decision.current.hash


def ready() -> tuple[Cluster, str]:
    """A tiny model that serves."""
    found = Cluster().apply(tiny_spec())
    name = current(found.step())
    found.serve(name).step()
    return found, name


def told(found: Cluster) -> InferenceModelStatus:
    return status(found.snapshot(), found.decide(), Outcome())


def condition(found: Cluster, kind: ConditionType) -> tuple[str, str, str]:
    (one,) = (each for each in told(found).conditions if each.type == kind)
    return one.status, one.reason, one.message


@pytest.mark.parametrize("patch", REFUSED.values(), ids=REFUSED.keys())
def test_no_field_is_ignored_on_a_model_that_serves(patch: Any) -> None:
    found, name = ready()

    decision = found.apply(merged(tiny_spec(), patch)).step()

    assert decision.refused is not None
    assert current(decision) == name
    assert found.deployed() == {name}


BESIDE = {
    "scaling": (
        {"scaling": {"maxReplicas": 3}},
        "spec.scaling is not supported by this version: remove it and set spec.replicas, by hand"
        " or with a HorizontalPodAutoscaler.",
    ),
    "API keys": (
        {"endpoint": {"apiKeysSecretRef": {"name": "keys"}}},
        "spec.endpoint.apiKeysSecretRef is not supported by this version: remove it and have"
        " keys checked in front of the Service.",
    ),
    "the gateway": (
        {"endpoint": {"gateway": "InferencePool"}},
        "spec.endpoint.gateway InferencePool is not supported by this version: use Router.",
    ),
    "a drain of more than a week": (
        {"rollout": {"drainDeadline": "169h"}},
        "spec.rollout.drainDeadline 169h exceeds 168h, the longest that a pod waits: lower it.",
    ),
}


@pytest.mark.parametrize(("patch", "sentence"), BESIDE.values(), ids=BESIDE.keys())
def test_a_field_beside_the_plan_is_refused_while_the_plan_serves(
    patch: Any, sentence: str
) -> None:
    found, name = ready()

    found.apply(merged(tiny_spec(), patch)).step()

    assert condition(found, ConditionType.ACCEPTED)[0] == "False"
    assert condition(found, ConditionType.ACCEPTED)[2] == sentence
    assert condition(found, ConditionType.READY)[0] == "False"
    assert condition(found, ConditionType.AVAILABLE)[0] == "True"
    assert found.deployed() == {name}


def test_scaling_that_does_not_happen_is_not_called_unset() -> None:
    found, _ = ready()
    found.apply(tiny_spec(scaling={"maxReplicas": 3})).step()

    assert condition(found, ConditionType.SCALING_ACTIVE) == (
        "False",
        Reason.DISABLED.value,
        "spec.scaling is set and this version does not scale, so spec.replicas is kept: see the"
        " condition Accepted.",
    )


def test_a_stored_plan_outlives_a_refusal_of_its_own_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upgrade that refuses more says nothing against a plan that runs."""
    spec = tiny_spec(serving={"extraArgs": ["--seed=7"]})
    found = Cluster().apply(spec)
    name = current(found.step())
    found.serve(name).step()
    monkeypatch.setattr(
        "kindling_operator.plan.checks_arguments.FORBIDDEN", {"--seed": "remove it"}
    )

    decision = found.step()

    assert decision.refused is None
    assert found.deployed() == {name}


BROKEN = {"runtime": {"image": "registry.test/broken"}}


def failed(**rollout: Any) -> tuple[Cluster, str, str]:
    """A model that serves, and a change to it that does not; their revisions."""
    found, old = ready()
    new = current(found.apply(tiny_spec(**BROKEN, rollout=rollout)).step())
    found.start(new).step()
    found.later(minutes=46).step()
    return found, old, new


def test_after_a_rollback_no_plan_is_about_to_change() -> None:
    found, old, _ = failed()

    assert condition(found, ConditionType.PLAN_CURRENT) == (
        "False",
        Reason.ROLLED_BACK.value,
        f"The plan of the present spec failed and all replicas run the plan tiny-{old}: correct the"
        " spec to try once more.",
    )


def test_a_plan_that_is_held_is_not_the_one_that_serves() -> None:
    found, _, new = failed(onFailure="Hold")

    assert condition(found, ConditionType.PLAN_CURRENT) == (
        "False",
        Reason.HELD.value,
        f"The plan tiny-{new} failed and is held beside the one that serves: correct the spec, or"
        " set onFailure to Rollback.",
    )


def with_a_long_reason(words: str) -> Cluster:
    """Flint on a node of each kind, and an image whose owner wrote a lot about one of them."""
    base = environment()
    facts = base.own_runtime(Device.GPU)
    capability = Capability(
        status=CapabilityStatus.BROKEN, gpu_architecture="sm90", reason=words, source="a test"
    )
    models = tuple(
        structs.replace(model, capabilities=(capability, *model.capabilities))
        for model in facts.models
    )
    told_more = structs.replace(facts, models=models)
    runtimes = {**base.runtimes, facts.name: told_more}
    nodes = (gpu_node("gpu-0"), gpu_node("gpu-1", "NVIDIA-B200"))
    found = Cluster(nodes=nodes, environment=environment(runtimes=runtimes))
    return found.apply(catalog_spec("flint"))


@pytest.mark.parametrize("words", ["so long " * 400, "ü" * 5000], ids=["words", "one word"])
def test_a_rejected_option_is_told_of_within_what_status_holds(words: str) -> None:
    """Else the API server would refuse the status, and the stored plan would be unreadable."""
    found = with_a_long_reason(words)
    name = current(found.step())

    assert current(found.serve(name, node="gpu-1", gpus=1).step()) == name
    wire = told(found).to_wire()
    msgspec.convert(wire, InferenceModelStatus)
    messages = [each["message"] for each in wire["plan"]["rejected"]]
    assert any(message.endswith(" …") for message in messages)
    assert all(message == fit_message(message) for message in messages)
    (schema,) = crd()["spec"]["versions"]
    plan_schema = schema["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["plan"]
    bound = plan_schema["properties"]["rejected"]["items"]["properties"]["message"]["maxLength"]
    assert bound == MESSAGE_BYTES


def test_the_name_of_a_rejected_option_is_cut_too(tmp_path: Path) -> None:
    """A node may say anything of its GPUs, as far as a file goes."""
    label: dict[str, Any] = {"gpu.product": "NVIDIA-" + "X" * 400}
    nodes = [node("gpu-0"), node("gpu-1", **label)]

    said = kindling_plan(tmp_path, catalog_spec("flint"), *nodes)

    msgspec.convert(said.status, PlanStatus)
    assert any("X" * 200 in option for option in said.rejected)
