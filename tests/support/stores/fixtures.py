"""Real object stores as fixtures, each started when a test first asks for it."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from tests.support.stores import real, tls
from tests.support.stores.real import RealStore


@pytest.fixture(scope="session")
def store_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RealStore]]:
    """The store of a scheme."""
    folder = tmp_path_factory.mktemp("stores")
    started: dict[str, RealStore] = {}
    with contextlib.ExitStack() as stack:

        def get(kind: str) -> RealStore:
            if kind not in started:
                made = tls.make_tls(folder / f"tls-{kind}")
                started[kind] = stack.enter_context(real.running(kind, folder / kind, made))
            return started[kind]

        yield get
