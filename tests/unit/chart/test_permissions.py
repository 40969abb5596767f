"""The chart grants what the operator's own table lists, no more and no less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.helm import Helm, Manifest, of_kind, only

from kindling_operator import rbac
from kindling_operator.kube.kinds import CLUSTER_SCOPED

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60, func_only=True)]

ACCOUNT = "kindling-operator"
LIMITED = "--set=watchNamespaces={ml,search}"

Grant = tuple[str, str, str, tuple[str, ...]]


def _grants(role: Manifest) -> Iterator[Grant]:
    """Every group, resource and verb of a role, with the names that it is limited to."""
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb, tuple(rule.get("resourceNames", ()))


def _listed(rules: tuple[rbac.Rule, ...]) -> set[Grant]:
    return {(rule.group, rule.resource, verb, rule.names) for rule in rules for verb in rule.verbs}


def _bound(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Namespace ("" is all of them) and role of every binding; each binds the operator alone."""
    roles = {
        (role["kind"], role["metadata"]["name"]): role
        for role in (*of_kind(manifests, "Role"), *of_kind(manifests, "ClusterRole"))
    }
    bindings = (*of_kind(manifests, "RoleBinding"), *of_kind(manifests, "ClusterRoleBinding"))
    account = only(manifests, "ServiceAccount")["metadata"]
    for binding in bindings:
        [subject] = binding["subjects"]
        assert (subject["kind"], subject["name"]) == ("ServiceAccount", account["name"])
        assert subject["namespace"] == account["namespace"]
        reference = binding["roleRef"]
        namespace = binding["metadata"].get("namespace", "")
        yield namespace, roles[reference["kind"], reference["name"]]


def _everywhere(manifests: list[Manifest], namespace: str) -> list[Grant]:
    return [
        grant for where, role in _bound(manifests) if where == namespace for grant in _grants(role)
    ]


def test_the_operator_gets_the_table(program: Helm) -> None:
    manifests = program.manifests()
    cluster = _everywhere(manifests, "")
    own = _everywhere(manifests, "kindling-system")

    assert set(cluster) == _listed(rbac.cluster_rules(ACCOUNT))
    assert set(own) == _listed(rbac.own_namespace_rules(ACCOUNT))
    assert len(cluster) == len(set(cluster)), "something is granted twice"


def test_of_some_namespaces_only_it_gets_the_same_there(program: Helm) -> None:
    """What belongs to no namespace stays readable; the Lease's namespace is watched too."""
    manifests = program.manifests(LIMITED)
    outside = {(kind.group, kind.plural) for kind in CLUSTER_SCOPED}
    table = _listed(rbac.cluster_rules(ACCOUNT))
    inside = {grant for grant in table if grant[:2] not in outside}

    assert set(_everywhere(manifests, "")) == table - inside
    for namespace in ("ml", "search"):
        assert set(_everywhere(manifests, namespace)) == inside
    own = inside | _listed(rbac.own_namespace_rules(ACCOUNT))
    assert set(_everywhere(manifests, "kindling-system")) == own


def test_nothing_is_granted_by_pattern(program: Helm) -> None:
    manifests = program.manifests()
    roles = (*of_kind(manifests, "Role"), *of_kind(manifests, "ClusterRole"))

    assert not [grant for role in roles for grant in _grants(role) if "*" in grant[:3]]


def test_no_binding_makes_the_operator_a_user_of_its_own_models(program: Helm) -> None:
    """The roles for people are bound by the cluster's own aggregation, never to the operator."""
    bound = {role["metadata"]["name"] for _, role in _bound(program.manifests())}

    assert bound == {"kindling-operator", "kindling-operator-cluster"}
