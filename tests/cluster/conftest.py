"""Tests on the real one-node cluster with the real vLLM: fixtures, deadlines, evidence."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support import fixtures
from tests.support.fixtures import (
    cluster,
    images,
    kube,
    namespace,
    operator,
    say,
    shared_engine,
    weights,
)

__all__ = [
    "cluster",
    "images",
    "kube",
    "namespace",
    "operator",
    "say",
    "shared_engine",
    "weights",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A deadline for every test of this folder; permissions last: they are read from the log."""
    fixtures.deadlines(items, Path(__file__).parent)
    items.sort(key=lambda item: item.path.name == "test_rbac.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test leaves everything that was logged in a folder that its report names."""
    report = yield
    fixtures.leave_evidence(item, report)
    return report
