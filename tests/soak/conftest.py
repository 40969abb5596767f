"""Long runs on the real cluster. Their last result is docs/soak.md, written when they end."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests.soak.result import Result
from tests.support import fixtures
from tests.support.fixtures import cluster, images, kube, namespace, operator, say, weights

__all__ = ["cluster", "images", "kube", "namespace", "operator", "say", "weights"]


@pytest.fixture(scope="session")
def result() -> Iterator[Result]:
    """What the page will say; tests add to it as they go."""
    found = Result()
    yield found
    found.write()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """As in the cluster tests: a failed test names the folder with its logs."""
    report = yield
    fixtures.leave_evidence(item, report)
    return report


SOAK_SECONDS = 2 * 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests have a long deadline of their own."""
    fixtures.deadlines(items, Path(__file__).parent, seconds=SOAK_SECONDS)
