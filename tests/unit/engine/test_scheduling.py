"""Pods that the cluster refuses: its words, and the field of the spec that they are about."""

import pytest
from tests.support.observed import decision, deployment, revision, short, snapshot, told

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
