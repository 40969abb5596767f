"""The operator has exactly the permissions that it uses, by the API server's audit log.

Runs last of all files of this folder (conftest.py), so that the log has the whole suite in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pytest
from tests.support import audit, manifests
from tests.support.audit import Request
from tests.support.install import NAMESPACE, OPERATOR, Images, wait_for_operator
from tests.support.kube import COMMON_KINDS, MODEL, Kube, Object
from tests.support.onenode import Cluster
from tests.support.waiting import until

from kindling_operator.kube.kinds import LEASE
from kindling_operator.model import names
from kindling_operator.model.names import Kind

pytestmark = pytest.mark.cluster

STARTED: Final = datetime.now(UTC)
"""When the tests were collected: what was asked for earlier, an older operator has asked for."""

NAME: Final = "permitted"
SELECTOR: Final = f"{names.LABEL_MODEL}={NAME}"
SECONDS: Final = 60
OPTIONAL_GROUPS: Final = {kind.group for kind in names.OPTIONAL_KINDS}
"""APIs of somebody else's CRD, which this cluster may lack: test_groups.py has it and uses all."""
USER: Final = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"
RBAC: Final = "rbac.authorization.k8s.io/v1"
KINDS: Final = (
    (
        Kind(RBAC, "ClusterRoleBinding", "clusterrolebindings"),
        Kind(RBAC, "ClusterRole", "clusterroles"),
    ),
    (Kind(RBAC, "RoleBinding", "rolebindings"), Kind(RBAC, "Role", "roles")),
)


class Permission(NamedTuple):
    """One verb on one resource ("pods", "inferencemodels/status") of one API group."""

    group: str
    resource: str
    verb: str


def _granted(kube: Kube) -> set[Permission]:
    """What the roles that are bound to the operator's ServiceAccount allow."""
    return {
        Permission(group, resource, verb)
        for rule in _rules(kube)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _rules(kube: Kube) -> Iterator[Object]:
    for binding_kind, role_kind in KINDS:
        for binding in kube.find(binding_kind):
            subjects = binding.get("subjects") or []
            if any((s.get("namespace"), s["name"]) == (NAMESPACE, OPERATOR) for s in subjects):
                namespace = binding["metadata"].get("namespace", "")
                yield from kube.have(role_kind, binding["roleRef"]["name"], namespace)["rules"]


def _used(request: Request) -> Iterator[Permission]:
    """What a request needs. An apply that creates the object is asked about both verbs."""
    resource = "/".join(part for part in (request.resource, request.subresource) if part)
    yield Permission(request.group, resource, request.verb)
    if request.verb == "patch" and request.code == 201:
        yield Permission(request.group, resource, "create")


@pytest.fixture(scope="module")
def exercised(kube: Kube, operator: Images, namespace: str) -> datetime:
    """When a life of operator and model began that needs every permission, so that this file needs
    no other: children made and mended, a revision superseded, an account given up, the end."""
    began = datetime.now(UTC)
    kube.delete(LEASE, OPERATOR, NAMESPACE)
    kube.kubectl("rollout", "restart", f"deployment/{OPERATOR}", "-n", NAMESPACE)
    wait_for_operator(kube)
    kube.apply(manifests.tiny(NAME, namespace, replicas=0))
    first = _revision(kube, namespace, other_than="")
    _damage(kube, namespace)
    kube.apply(manifests.tiny(NAME, namespace, replicas=0, serving={"contextLength": 1024}))
    second = _revision(kube, namespace, other_than=first)
    for kind in (names.DEPLOYMENT, names.CONFIG_MAP, names.CONTROLLER_REVISION):
        kube.wait_gone(kind, first, namespace, seconds=SECONDS)
    own = {"serviceAccountName": "default"}
    kube.apply(
        manifests.tiny(NAME, namespace, replicas=0, serving={"contextLength": 1024}, runtime=own)
    )
    _revision(kube, namespace, other_than=second)
    until(
        "the model's own ServiceAccount to be gone",
        lambda: not kube.find(names.SERVICE_ACCOUNT, namespace, selector=SELECTOR),
        seconds=SECONDS,
        say=kube.say,
    )
    kube.delete(MODEL, NAME, namespace)
    kube.wait_gone(MODEL, NAME, namespace, seconds=SECONDS)
    return began


def _damage(kube: Kube, namespace: str) -> None:
    """Change a label of every child by hand, and wait until each is as it was."""
    damage: Object = {"metadata": {"labels": {names.LABEL_COMPONENT: "damaged"}}}
    for kind in COMMON_KINDS:
        [child] = kube.find(kind, namespace, selector=SELECTOR)
        kube.patch(kind, child["metadata"]["name"], namespace, damage)
    damaged = f"{SELECTOR},{names.LABEL_COMPONENT}=damaged"
    until(
        "the children to be mended",
        lambda: not any(kube.find(k, namespace, selector=damaged) for k in COMMON_KINDS),
        seconds=SECONDS,
        say=kube.say,
    )


def _revision(kube: Kube, namespace: str, *, other_than: str) -> str:
    """Name of the model's Deployment, once there is another than that."""

    def look() -> str | None:
        found = kube.find(names.DEPLOYMENT, namespace, selector=SELECTOR)
        present = [each["metadata"]["name"] for each in found]
        return next((name for name in present if name != other_than), None)

    return until("a Deployment of the new revision", look, seconds=SECONDS, say=kube.say)


def _asked(cluster: Cluster, *, since: datetime) -> list[Request]:
    """What the operator has asked for, granted or not."""
    return [
        each
        for each in audit.requests(cluster.audit_log)
        if each.user == USER and each.received >= since
    ]


def test_the_operator_uses_every_permission_that_it_has_and_no_other(
    exercised: datetime, cluster: Cluster, kube: Kube
) -> None:
    """Discovery (/api, /apis, /version) is open to every account and names no resource."""
    asked = [each for each in _asked(cluster, since=STARTED) if each.resource]
    used = {permission for each in asked for permission in _used(each)}
    granted = _granted(kube)

    assert used - granted == set(), "used, but not granted by the chart"
    unused = {p for p in granted - used if p.group not in OPTIONAL_GROUPS}
    assert unused == set(), "granted by the chart, but never used"


def test_nothing_was_refused(exercised: datetime, cluster: Cluster) -> None:
    """Roles that are limited to a name fit too. Earlier, the release may have been away: whoever
    uninstalls it takes the roles first, and the last renewal of the Lease is refused."""
    asked = _asked(cluster, since=exercised)

    assert {f"{each.verb} {each.uri}" for each in asked if each.code == 403} == set()
    assert len(asked) > len(COMMON_KINDS)
