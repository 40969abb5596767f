"""Scheduled: pods that the cluster refuses or has no node for, and whose pods count."""

import pytest
from tests.support.observed import decision, deployment, pod, revision, short, snapshot, told

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.outcome import Outcome
from kindling_operator.model.plan import Verdict

ONE = decision((revision(), 1))

REFUSALS = {
    "no such PriorityClass": (
        'pods "flint-1111111111-" is forbidden: no PriorityClass with name urgent was found',
        "create the PriorityClass or correct spec.placement.priorityClassName.",
    ),
    "no such ServiceAccount": (
        'pods "flint-1111111111-" is forbidden: error looking up service account ml/nobody:'
        ' serviceaccount "nobody" not found',
        "create the ServiceAccount or correct spec.runtime.serviceAccountName.",
    ),
    "a quota": (
        'pods "flint-1111111111-" is forbidden: exceeded quota: small, requested: memory=6Gi,'
        " used: memory=0, limited: memory=1Gi",
        "raise the quota or lower spec.runtime.resources or spec.replicas.",
    ),
    "somebody's webhook": (
        'admission webhook "policy.example.com" denied the request: no team label.',
        "do what the message asks for.",
    ),
}


@pytest.mark.parametrize(("words", "fix"), REFUSALS.values(), ids=REFUSALS)
def test_refused_pods_name_the_field_to_correct(words: str, fix: str) -> None:
    found = told(snapshot(children=[deployment(failure=words)]), ONE)

    assert short(found["Scheduled"]) == "False/PodsRefused"
    assert found["Scheduled"].message == (
        f"The cluster refuses the pods of Deployment ml/flint-1111111111 ({words.rstrip('.')}):"
        f" {fix}"
    )
    assert found["Ready"].message == found["Scheduled"].message


def test_replicas_of_an_older_revision_do_not_count_as_scheduled() -> None:
    old, new = revision("0000000000"), revision("1111111111")
    rolling = decision((new, 1), (old, 1))
    here = pod("old", digest=old.hash, ready=True)

    both = told(snapshot(pods=[here, pod("new")], children=[deployment()]), rolling)
    assert both["Scheduled"].message == "1 of 1 replicas have a node."

    alone = told(snapshot(pods=[here], children=[deployment()]), rolling)
    assert short(alone["Scheduled"]) == "Unknown/PodsPending"
    assert alone["Scheduled"].message == ("1 of 1 replicas have no pod of the newest revision yet.")


def test_the_scheduler_is_waited_for_once_there_is_a_pod() -> None:
    waiting = pod("a", node="", phase="Pending")

    found = told(snapshot(pods=[waiting], children=[deployment()]), ONE)["Scheduled"]

    assert short(found) == "Unknown/PodsPending"
    assert found.message == "1 of 1 replicas wait for the scheduler's first answer."


def test_replicas_of_a_deployment_that_is_not_made_do_not_wait_for_the_scheduler() -> None:
    made = deployment().ref
    refused = Verdict(ConditionType.PROGRESSING, Reason.APPLY_REFUSED, "exceeded quota.")
    says = {
        "1 of 1 replicas do not exist: Deployment flint-1111111111 is about to be made.": Outcome(),
        "1 of 1 replicas do not exist: Deployment flint-1111111111 is made after what the cluster"
        " refuses, see the condition Progressing.": Outcome(verdict=refused),
        "1 of 1 replicas have no pod of the newest revision yet.": Outcome(applied=(made,)),
    }

    for message, outcome in says.items():
        found = told(snapshot(), ONE, outcome)["Scheduled"]
        assert (short(found), found.message) == ("Unknown/PodsPending", message)


def test_an_older_replica_without_a_node_is_not_what_the_model_waits_for() -> None:
    old = pod("old", digest="0000000000", node="", unschedulable="0/1 nodes are available.")
    rolling = decision((revision(), 1), (revision("0000000000"), 2))

    found = told(snapshot(pods=[old, pod("new")], children=[deployment()]), rolling)

    assert short(found["Scheduled"]) == "True/PodsScheduled"


NO_GPU = "0/45 nodes are available: 1 Insufficient nvidia.com/gpu, 44 node(s) didn't match"
LACKS = Verdict(
    ConditionType.SCHEDULED,
    Reason.INSUFFICIENT_GPU,
    "Needs 1 x NVIDIA-H200 in one node; best node a has 0 of 8 free, 8 held by ml/flint: free 1 or"
    " add a node.",
)


def without_node(words: str, lacks: Verdict | None) -> str:
    stuck = pod("a", node="", phase="Pending", unschedulable=words)
    found = told(
        snapshot(pods=[stuck], children=[deployment()]), decision((revision(), 1), short=lacks)
    )["Scheduled"]
    assert found.status == "False"
    return found.message


def test_where_planner_and_scheduler_agree_the_holder_and_the_number_are_told() -> None:
    assert without_node(NO_GPU, LACKS) == (
        "1 of 1 replicas have no node: needs 1 x NVIDIA-H200 in one node; best node a has 0 of 8"
        " free, 8 held by ml/flint: free 1 or add a node."
    )


@pytest.mark.parametrize(
    ("words", "lacks"),
    [(NO_GPU, None), ("0/1 nodes are available: 1 node(s) had untolerated taint", LACKS)],
    ids=["the planner sees room", "the scheduler has another reason"],
)
def test_where_they_do_not_the_schedulers_words_are_repeated(
    words: str, lacks: Verdict | None
) -> None:
    assert f"({words})" in without_node(words, lacks)


def test_a_cordoned_node_is_told_with_what_opens_it() -> None:
    words = "0/1 nodes are available: 1 node(s) were unschedulable."
    found = told(snapshot(pods=[pod("a", node="", unschedulable=words)]), ONE)

    assert found["Ready"].message == (
        f"1 of 1 replicas have no node ({words.rstrip('.')}): uncordon a node (`kubectl uncordon`)"
        " or add one."
    )


def test_a_claim_that_is_not_bound_is_named_although_the_scheduler_does_not() -> None:
    words = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    found = told(snapshot(pods=[pod("a", node="", unschedulable=words)]), ONE)

    assert short(found["Ready"]) == "False/ClaimNotBound"
    assert found["Ready"].message.endswith(
        "PersistentVolumeClaims): create or bind ml/weights, or name another one."
    )
