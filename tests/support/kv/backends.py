"""Buckets to test with: in memory, and of each real store by the identity of its cloud."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from obstore.store import MemoryStore
from tests.support.stores import real, relay, tokens
from tests.support.stores.real import RealStore
from tests.support.stores.relay import Relay

from kindling_runtime.kv.bucket import Ask, Bucket, open_bucket


@dataclass(slots=True)
class Gated(Bucket):
    """A bucket that answers nothing while its gate is shut."""

    shut: bool = False

    async def _ask(
        self,
        kind: Ask,
        call: Callable[..., Awaitable[Any]],
        *given: Any,
        seconds: float,
        **more: Any,
    ) -> Any:
        async def held(*arguments: Any, **named: Any) -> Any:
            # By another thread, which knows no event of this loop.
            while self.shut:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            return await call(*arguments, **named)

        return await Bucket._ask(self, kind, held, *given, seconds=seconds, **more)


MEMORY: Final = "memory"
KINDS: Final = (MEMORY, *real.KINDS)


@asynccontextmanager
async def backend(
    kind: str,
    folder: Path,
    patch: pytest.MonkeyPatch,
    store_of: Callable[[str], RealStore],
) -> AsyncIterator[Callable[[], Bucket]]:
    """How pods open a new bucket; all of them the same one."""
    if kind == MEMORY:
        store = MemoryStore()
        yield lambda: Bucket(store)
        return
    async with reached(store_of(kind), folder, patch) as (uri, _):
        yield lambda: open_bucket(uri)[0]


@asynccontextmanager
async def reached(
    store: RealStore, folder: Path, patch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, Relay]]:
    """A new bucket of a real store, and the relay that leads to it."""
    async with contextlib.AsyncExitStack() as stack:
        between = await stack.enter_async_context(relay.relayed(store.port))
        given = await stack.enter_async_context(tokens.serving(folder, store.tls, store.sessions))
        local = "localhost,127.0.0.1"
        names = {"NO_PROXY": local, "no_proxy": local, "SSL_CERT_FILE": str(store.tls.authority)}
        for name, value in {
            **names,
            **store.environment(between.port),
            **store.identity(given),
        }.items():
            patch.setenv(name, value)
        bucket = real.new_bucket()
        await store.make(bucket)
        yield store.uri(bucket, ""), between
