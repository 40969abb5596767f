"""From a fetch to a real store: a relay between them, and the token services of its cloud."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.stores import real, relay, tokens
from tests.support.stores.real import RealStore
from tests.support.stores.relay import Relay
from tests.support.stores.tokens import Tokens
from tests.support.weights.fetching import Fetching

from kindling_runtime.weights.objects import Objects


@dataclass(slots=True)
class Way:
    """One test's bucket of a store. `identity` replaces what the store's cloud gives a pod."""

    store: RealStore
    relay: Relay
    tokens: Tokens
    bucket: str
    prefix: str = "models/tiny"
    identity: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """Of the model."""
        return self.store.uri(self.bucket, self.prefix)

    @property
    def environment(self) -> dict[str, str]:
        """Of the pod that fetches."""
        local = "localhost,127.0.0.1"
        return {
            "NO_PROXY": local,
            "no_proxy": local,
            "SSL_CERT_FILE": str(self.store.tls.authority),
            **self.store.environment(self.relay.port),
            **(self.identity or self.store.identity(self.tokens)),
        }

    async def fill(self, files: Mapping[str, bytes]) -> None:
        """Make the bucket, with these files of the model."""
        await self.store.fill(self.bucket, self.prefix, files)

    def client(self, patch: pytest.MonkeyPatch, uri: str) -> Objects:
        """That of a fetch, in this process."""
        for name, value in self.environment.items():
            patch.setenv(name, value)
        return Objects(uri)

    async def stuck(self, run: Fetching) -> None:
        """Wait until the relay has sent all that it will."""
        async with asyncio.timeout(45):
            while not self.relay.stuck.is_set():
                assert run.process.returncode is None, run.log
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def reached(store: RealStore, folder: Path) -> AsyncIterator[Way]:
    """A new bucket of the store, not made yet; `folder` gets the pod's tokens."""
    async with (
        relay.relayed(store.port) as between,
        tokens.serving(folder, store.tls, store.sessions) as services,
    ):
        yield Way(store, between, services, real.new_bucket())
