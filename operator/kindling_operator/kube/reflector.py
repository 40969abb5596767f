"""A kind as it is and as it changes, handed on in raw JSON: one paged list, then one long watch.

kopf's watches keep whole bodies; this keeps nothing. It resumes where a stream has ended, lists
again where the API server no longer knows that place (410), and every wait has a deadline.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, Protocol, TypeVar

import aiohttp
import msgspec

from kindling_operator.kube.client import CALL_SECONDS, Kube
from kindling_operator.kube.errors import (
    ExpiredError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnavailableError,
)
from kindling_operator.model.names import Kind

logger = logging.getLogger(__name__)

WATCH_SECONDS: Final = 300
"""How long the API server keeps one stream; then it is opened again where it ended."""
SILENCE_SECONDS: Final = 90.0
"""The API server sends a bookmark every minute (cacher.go, defaultBookmarkFrequency); a stream that
is silent for longer is dead."""
BACKOFF_SECONDS: Final = (0.5, 1, 2, 5, 10, 30)
ABSENT_SECONDS: Final = 60.0
"""When a kind that the API server does not know is asked for again."""

Raw = bytes | msgspec.Raw


class Store(Protocol):
    """Who takes the objects."""

    def put(self, body: Raw) -> bool:
        """An object as it is now; whether that changes anything."""

    def drop(self, body: Raw) -> bool:
        """An object that is gone, in its last state; whether that changes anything."""


S = TypeVar("S", bound=Store)


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 (Kubernetes' spelling)
    remainder: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    code: int = 0
    message: str = ""


_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(_Event)
_OBJECT: Final = msgspec.json.Decoder(_Object)


class Reflector(Generic[S]):
    """Keeps a store like the API server's objects of one kind, in one namespace or in all.

    `store` is always a whole list with all that came after it: a new list goes into a new store.
    `lists` counts them.
    """

    def __init__(
        self,
        kube: Kube,
        kind: Kind,
        make: Callable[[], S],
        *,
        changed: Callable[[], None],
        beat: Callable[[], None],
        namespace: str = "",
        selector: str = "",
        optional: bool = False,
    ) -> None:
        """`changed` is called after a list, and after an event that changes the store; `beat`
        whenever a wait has ended. An `optional` kind that the API server does not know, or does not
        show, counts as one without objects."""
        self.kind = kind
        self.store = make()
        self.lists = 0
        self._kube = kube
        self._make = make
        self._changed = changed
        self._beat = beat
        self._namespace = namespace
        self._selector = selector
        self._optional = optional
        self._version = ""

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return self.lists > 0

    async def run(self) -> None:
        """List and watch until cancelled."""
        failures = 0
        while True:
            self._beat()
            try:
                if not self._version:
                    await self.list()
                await self._watch()
                failures = 0
            except KubeError as error:
                if self._optional and isinstance(error, (ForbiddenError, NotFoundError)):
                    self._replace(self._make(), version="")
                    await self._pause(ABSENT_SECONDS)
                    continue
                if isinstance(error, ExpiredError):
                    self._version = ""
                else:
                    logger.warning("%s are not watched: %s", self.kind.plural, error)
                failures += 1
            # A stream that ends at once, for ever, must not make a storm of requests.
            await self._pause(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])

    async def _pause(self, seconds: float) -> None:
        """Wait, and show now and then that this is all."""
        while seconds > 0:
            await asyncio.sleep(min(seconds, 10.0))
            seconds -= 10.0
            self._beat()

    async def list(self) -> None:
        """Take everything that is there; raises KubeError."""
        store, following = self._make(), ""
        while True:
            page = await self._page(following)
            for body in page.items or ():
                store.put(body)
            following = page.metadata.remainder
            self._beat()
            if not following:
                break
        self._replace(store, version=page.metadata.resourceVersion)

    def _replace(self, store: S, *, version: str) -> None:
        self.store, self._version = store, version
        self.lists += 1
        self._changed()

    async def _page(self, following: str) -> _List:
        what = f"list {self.kind.kind}"
        async with self._kube.reading(
            self.kind,
            namespace=self._namespace,
            selector=self._selector,
            following=following,
            wait=aiohttp.ClientTimeout(total=3 * CALL_SECONDS),
        ) as answer:
            body = await answer.read()
        try:
            return _LIST.decode(body)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"{what}: the answer cannot be read, {error}") from error

    async def _watch(self) -> None:
        """Take what changes from the present version on, until the stream ends."""
        async with self._kube.reading(
            self.kind,
            namespace=self._namespace,
            selector=self._selector,
            since=self._version,
            seconds=WATCH_SECONDS,
            wait=aiohttp.ClientTimeout(
                total=WATCH_SECONDS + SILENCE_SECONDS,
                connect=CALL_SECONDS,
                sock_read=SILENCE_SECONDS,
            ),
        ) as answer:
            async for line in _lines(answer):
                self._take(line)
                self._beat()

    def _take(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
            found = _OBJECT.decode(event.object)
        except msgspec.MsgspecError as error:
            raise UnavailableError(
                f"watch {self.kind.kind}: the stream cannot be read, {error}"
            ) from error
        if event.type == "ERROR":
            if found.code == 410:
                raise ExpiredError(f"watch {self.kind.kind}: {found.message}")
            raise UnavailableError(f"watch {self.kind.kind}: {found.message or found.code}")
        changes = False
        if event.type == "DELETED":
            changes = self.store.drop(event.object)
        elif event.type != "BOOKMARK":
            changes = self.store.put(event.object)
        self._version = found.metadata.resourceVersion or self._version
        if changes:
            self._changed()


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """One JSON document per line, however long: aiohttp's own readline refuses long ones."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
