"""Long runs on the real cluster. Their last result is docs/soak.md, written when they end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.soak.result import Result
from tests.support import fixtures
from tests.support.fixtures import (
    cluster,
    images,
    kube,
    namespace,
    operator,
    pytest_runtest_makereport,
    say,
    weights,
)

__all__ = [
    "cluster",
    "images",
    "kube",
    "namespace",
    "operator",
    "pytest_runtest_makereport",
    "say",
    "weights",
]

SOAK_SECONDS = 2 * 3600


@pytest.fixture(scope="session")
def result() -> Iterator[Result]:
    """What the page will say; tests add to it as they go."""
    found = Result()
    yield found
    found.write()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests have a long deadline of their own."""
    fixtures.deadlines(items, Path(__file__).parent, seconds=SOAK_SECONDS)
