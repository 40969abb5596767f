"""Both helms, for the tests that render the chart.

They need no cluster, but programs that take minutes to build without a cache: such tests carry the
marker `cluster`, since they run after that build, and their deadline leaves the build out.
"""

from __future__ import annotations

import pytest
from tests.support.helm import Helm, helm


@pytest.fixture(scope="session", params=[3, 4], ids=["helm3", "helm4"])
def program(request: pytest.FixtureRequest) -> Helm:
    """helm 3 and helm 4, built if need be."""
    return helm(request.param)
