"""An operator that serves some namespaces only, with permissions for those only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.support import install, manifests
from tests.support.fixtures import remove
from tests.support.install import NAMESPACE, OPERATOR, Images
from tests.support.kube import MODEL, Kube, KubectlError
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

NAME: Final = "local"
OUTSIDE: Final = "test-not-watched"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"


@pytest.fixture(scope="module")
def limited(kube: Kube, operator: Images, namespace: str) -> Iterator[str]:
    """The one namespace that is served; at the end all are again."""
    kube.apply(manifests.namespace(OUTSIDE))
    install.install(kube, operator, values={"watchNamespaces": [namespace]})
    yield namespace
    install.install(kube, operator)
    remove(kube, OUTSIDE)


def _may(kube: Kube, verb: str, resource: str, namespace: str) -> bool:
    try:
        kube.kubectl("auth", "can-i", verb, resource, f"--as={ACCOUNT}", "-n", namespace)
    except KubectlError:
        return False
    return True


def test_only_the_named_namespace_is_served(limited: str, kube: Kube) -> None:
    """The model outside comes first, so its turn would have come first too."""
    kube.apply(manifests.tiny(NAME, OUTSIDE, replicas=0))
    kube.apply(manifests.tiny(NAME, limited, replicas=0))

    kube.wait_condition(NAME, limited, type="Accepted", seconds=60)
    until(
        "the children of the served model",
        lambda: bool(kube.find(names.DEPLOYMENT, limited)),
        seconds=60,
        say=kube.say,
    )
    assert "status" not in kube.have(MODEL, NAME, OUTSIDE)
    assert kube.find(names.DEPLOYMENT, OUTSIDE) == []


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("list", "pods"), ("patch", "deployments.apps"), ("create", "events.events.k8s.io")],
)
def test_permissions_end_at_the_named_namespace(
    limited: str, kube: Kube, verb: str, resource: str
) -> None:
    assert _may(kube, verb, resource, limited)
    assert not _may(kube, verb, resource, OUTSIDE)
