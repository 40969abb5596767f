"""The audit's view of a real API server."""

import pytest
from tests.chaos.conftest import FIRST
from tests.support.apiserver import ControlPlane
from tests.support.clients import configured
from tests.support.kube import Kube as Admin
from tests.support.observed import ENVIRONMENT

from kindling_operator.kube.client import Kube
from kindling_operator.observe.audit import Auditor
from kindling_operator.observe.cache import Cache
from kindling_operator.observe.watched import PRIORITIES

pytestmark = pytest.mark.cluster


async def test_a_list_of_many_pages_shows_that_the_audit_is_alive(
    plane: ControlPlane, kube: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every API server has the two PriorityClasses of the system."""
    monkeypatch.setattr("kindling_operator.kube.client.PAGE", 1)
    beats: list[str] = []
    async with Kube(await configured(plane.kubeconfig(FIRST))) as client:
        auditor = Auditor(client, Cache(ENVIRONMENT), grace=0)
        found, _ = await auditor.look(PRIORITIES, now=0, beat=lambda: beats.append("beat"))

    assert len(found.missed) >= 2
    assert len(beats) >= len(found.missed)
