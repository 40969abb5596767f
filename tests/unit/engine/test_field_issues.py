"""What goes wrong at users of similar systems while a model waits or changes: what its owner reads.

Each test is named after the behaviour, with the public thread in which its absence was reported;
docs/field-issues.md lists the tests of all of them.
"""

from dataclasses import replace
from typing import Any

from tests.support import builders
from tests.support.builders import Cluster, catalog_spec, cpu_node, foreign_pod, gpu_node, tiny_spec
from tests.support.observed import (
    KEY,
    decision,
    deployment,
    pod,
    revision,
    short,
    snapshot,
    told,
)

from kindling_operator.model.conditions import ConditionType
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import Decision, RolloutState
from kindling_operator.model.snapshot import Answers
from kindling_operator.report.conditions import facts, verdicts
from kindling_operator.report.status import status


def read(found: Cluster) -> dict[str, str]:
    """Status, reason and message of each condition of the cluster's one model."""
    seen = found.snapshot()
    known = facts(seen, found.decide(), Outcome())
    return {v.condition: f"{v.status}/{v.reason}: {v.message}" for v in verdicts(known, "URL")}


def test_a_model_that_lacks_gpus_says_need_best_fit_blocker_and_fix() -> None:
    """defilantech/LLMKube#78: the object says Creating while its pods have no GPU."""
    found = Cluster(
        nodes=(gpu_node("gpu-7", gpus=4), gpu_node("gpu-8", gpus=2)),
        pods=(foreign_pod("gpu-7", gpus=4, namespace="ml"), foreign_pod("gpu-8", gpus=2)),
    ).apply(catalog_spec("flint"))

    conditions = read(found)

    assert conditions[ConditionType.SCHEDULED] == (
        "False/InsufficientGPU: Needs 1 x NVIDIA-H200 in one node; best node gpu-7 has 0 of 4"
        " free, 4 held by ml/training: free 1 or add a node."
    )
    assert conditions[ConditionType.READY] == conditions[ConditionType.SCHEDULED].replace(
        "True", "False"
    )
    assert found.step().targets == ()


def test_a_new_operator_changes_no_pod_and_starts_no_rollout() -> None:
    """defilantech/LLMKube#192: an upgrade of the operator rolled every model and got stuck."""
    found = Cluster().apply(tiny_spec())
    first = found.step()
    assert first.current is not None
    found.serve(first.current.hash).step()
    before = found.manifests()

    found.environment = builders.environment(
        cpu_image="registry.test/kindling/runtime-cpu@sha256:new", image_pull_policy="Always"
    )

    assert found.step().state is RolloutState.STEADY
    assert found.manifests() == before


def rolling(**changes: Any) -> Decision:
    """A new revision beside the old one."""
    return decision((revision("1111111111"), 1), (revision("0000000000"), 1), **changes)


def test_a_change_is_not_said_to_be_done_while_old_pods_alone_serve() -> None:
    """ai-dynamo/dynamo#3567, ai-runway/airunway#422: Successful with the old pods alone."""
    old = pod("old", digest="0000000000", ready=True)
    seen = snapshot(
        pods=[old, pod("new")], children=[deployment(), deployment("0000000000")], endpoints=["old"]
    )

    found = told(seen, rolling())
    counts = status(seen, rolling(), Outcome())

    assert short(found["Progressing"]) == "True/RollingOut"
    assert found["Progressing"].message.startswith("0 of 1 replicas run revision flint-1111111111;")
    assert (counts.ready_replicas, counts.updated_replicas, counts.replicas) == (1, 1, 2)


def test_an_old_replica_stays_and_says_why_while_no_answer_came_through_the_service() -> None:
    """ai-dynamo/dynamo#13622: the old pod is gone before anything leads to the new one."""
    pods = [pod("old", digest="0000000000", ready=True), pod("new", ready=True)]
    seen = snapshot(
        pods=pods,
        children=[deployment(), deployment("0000000000")],
        endpoints=["old", "new"],
        answers={KEY: Answers(problem="http://10.0.0.2:9400 did not answer within 3 s")},
    )

    found = told(seen, rolling(ask=True))

    assert short(found["Progressing"]) == "True/RollingOut"
    assert found["Progressing"].message == (
        "1 of 1 replicas run revision flint-1111111111 and the older ones stay, because"
        " http://10.0.0.2:9400 did not answer within 3 s."
    )
    assert short(found["Ready"]) == "True/Serving"


def test_a_corrected_spec_replaces_replicas_that_crash() -> None:
    """volcano-sh/kthena#743, defilantech/LLMKube#1250: a bad image can never be replaced."""
    found = Cluster(nodes=(cpu_node(cpu_millis=1200),)).apply(tiny_spec())
    bad = found.step().current
    assert bad is not None
    found.serve(bad.hash).step()
    found.pods = tuple(replace(each, ready=False, restarts=7) for each in found.pods)
    found.endpoints.clear()

    good = found.apply(tiny_spec(serving={"contextLength": 1024})).step().current

    assert good is not None
    assert good.hash != bad.hash
    found.serve(good.hash).step()
    assert found.deployed() == {good.hash}


def test_a_failed_change_says_which_revision_serves_and_how_to_try_again() -> None:
    """A rollout that fails without a word is the common case of all these threads."""
    seen = snapshot(pods=[pod("a", ready=True)], children=[deployment()], endpoints=["a"])
    back = decision((revision(), 1), state=RolloutState.ROLLED_BACK)

    found = told(seen, back)

    assert short(found["Ready"]) == "False/RolledBack"
    assert found["Ready"].message == (
        "The newest revision failed and flint-1111111111 serves again: correct the spec to try"
        " once more."
    )
