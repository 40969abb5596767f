"""Roles made from the operator's own table of permissions, for users of a control plane."""

from collections.abc import Iterable
from typing import Final

from tests.support.kube import Object

from kindling_operator.rbac import Rule, cluster_rules, own_namespace_rules

RBAC: Final = "rbac.authorization.k8s.io"
NAME: Final = "kindling-operator"


def roles(*users: str, namespace: str, lease: str) -> list[Object]:
    """ClusterRole and Role with every permission of the table, bound to `users`."""
    everywhere, own = _rules(cluster_rules(lease)), _rules(own_namespace_rules(lease))
    return [
        _object("ClusterRole", "", rules=everywhere),
        _object("ClusterRoleBinding", "", **_binding("ClusterRole", users)),
        _object("Role", namespace, rules=own),
        _object("RoleBinding", namespace, **_binding("Role", users)),
    ]


def _rules(table: Iterable[Rule]) -> list[Object]:
    return [
        {
            "apiGroups": [rule.group],
            "resources": [rule.resource],
            "verbs": list(rule.verbs),
            **({"resourceNames": list(rule.names)} if rule.names else {}),
        }
        for rule in table
    ]


def _binding(kind: str, users: Iterable[str]) -> Object:
    return {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": NAME},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
    }


def _object(kind: str, namespace: str, **body: object) -> Object:
    metadata = {"name": NAME, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **body}
