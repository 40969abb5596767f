"""Buckets for tests of the tier."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.support.kv import backends
from tests.support.stores.fixtures import store_of
from tests.support.stores.real import RealStore

from kindling_runtime.kv.bucket import Bucket

__all__ = ["store_of"]


@pytest.fixture(
    params=[
        pytest.param(kind, marks=[] if kind == backends.MEMORY else pytest.mark.cluster)
        for kind in backends.KINDS
    ]
)
async def bucket(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store_of: Callable[[str], RealStore],
) -> AsyncIterator[Callable[[], Bucket]]:
    """How pods open a new bucket, of each kind in turn."""
    async with backends.backend(request.param, tmp_path, monkeypatch, store_of) as opened:
        yield opened
