"""Tests on the real one-node cluster with the real vLLM: fixtures, deadlines, evidence."""

from pathlib import Path

import pytest
from tests.support import fixtures
from tests.support.fixtures import (
    cluster,
    images,
    kube,
    namespace,
    operator,
    pytest_runtest_makereport,
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
    "pytest_runtest_makereport",
    "say",
    "shared_engine",
    "weights",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A deadline for every test of this folder; permissions last: they are read from the log."""
    fixtures.deadlines(items, Path(__file__).parent)
    items.sort(key=lambda item: item.path.name == "test_rbac.py")
