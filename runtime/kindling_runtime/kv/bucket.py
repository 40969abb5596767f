"""A bucket as the tier uses it: every question has a deadline, every write a condition.

Nothing here tries again: a miss costs a recompute, and a second try costs the same time once more.
"""

import asyncio
import enum
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

import obstore
from obstore import exceptions as told
from obstore.store import ObjectStore

from kindling_runtime.kv.policy.breaker import Breaker
from kindling_runtime.objectstore import identity
from kindling_runtime.objectstore.opening import opened, status_of
from kindling_runtime.objectstore.words import short

Buffer = bytes | bytearray | memoryview

_CONNECT_SECONDS: Final = 2.0
_WHOLE_SECONDS: Final = 120.0
_NO_SUCH_RANGE: Final = 416
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

_Got = TypeVar("_Got")


class Trouble(enum.StrEnum):
    """Why a store did not do what it was asked for; a label of metrics."""

    LATE = "late"
    """No answer within the deadline."""
    REFUSED = "refused"
    """It does not let this identity do so."""
    BUSY = "busy"
    """It wants to be asked less, or is failing (429, 5xx)."""
    UNREACHABLE = "unreachable"
    OTHER = "other"
    RESTING = "resting"
    """It was not asked: the circuit breaker is open."""


class StoreError(Exception):
    """The store has not done it; `trouble` is the kind, the text what it said."""

    def __init__(self, trouble: Trouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


class MissingError(Exception):
    """There is no such object, or it ends before what was asked for."""


class ChangedError(Exception):
    """The object is not the version that was to be replaced."""


class Ask(enum.StrEnum):
    """Kinds of requests, as stores price them; a label of metrics."""

    PUT = "put"
    GET = "get"
    HEAD = "head"
    LIST = "list"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Version:
    """Of an object, as its store tells it."""

    tag: str | None
    number: str | None

    def condition(self) -> Any:
        """For a write that replaces this version."""
        told = {"e_tag": self.tag, "version": self.number}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Listed:
    """An object of a listing; `modified` by the store's clock."""

    name: str
    size: int
    modified: datetime


@dataclass(slots=True)
class Bucket:
    """The objects of a bucket.

    All calls raise StoreError; those of one that is not there raise MissingError. `asked` counts
    the requests that were made, `failed` those that came to nothing, by kind of trouble.
    """

    store: ObjectStore
    breaker: Breaker = field(default_factory=Breaker)
    clock: Callable[[], float] = time.monotonic
    asked: dict[Ask, int] = field(default_factory=dict)
    failed: dict[Trouble, int] = field(default_factory=dict)
    heard: bool = False
    """Whether the store has ever answered a question well."""
    trouble: Trouble | None = None
    """Of the last request that came to nothing; None after one that did not."""
    said: str = ""

    async def size(self, name: str, *, seconds: float) -> int | None:
        """Bytes of an object; None where there is none."""
        try:
            meta = await self._ask(Ask.HEAD, obstore.head_async, name, seconds=seconds)
        except MissingError:
            return None
        return int(meta["size"])

    async def read(self, name: str, stop: int, *, seconds: float) -> memoryview:
        """The first `stop` bytes of an object, fewer where it ends before."""
        found = await self._ask(
            Ask.GET, obstore.get_range_async, name, seconds=seconds, start=0, end=stop
        )
        return memoryview(found)

    async def read_whole(self, name: str, *, seconds: float) -> tuple[bytes, Version]:
        """A small object and its version."""
        return await self._ask(Ask.GET, _whole, name, seconds=seconds)

    async def create(self, name: str, parts: Sequence[Buffer], *, seconds: float) -> bool:
        """Write an object from its parts; False where there is one of that name. The parts must not
        change before this returns or raises, and even then not before the request has ended."""
        try:
            await self._ask(
                *(Ask.PUT, obstore.put_async, name, list(parts)),
                seconds=seconds,
                mode="create",
                use_multipart=False,
            )
        except ChangedError:
            return False
        return True

    async def replace(
        self, name: str, content: bytes, version: Version | None, *, seconds: float
    ) -> Version:
        """Write a small object in the place of that version, of none where it is None; raises
        ChangedError where another is there."""
        mode = "create" if version is None else version.condition()
        made = await self._ask(
            Ask.PUT, obstore.put_async, name, content, seconds=seconds, mode=mode
        )
        return _version(made)

    async def overwrite(self, name: str, content: bytes, *, seconds: float) -> None:
        """Write a small object, whatever is there."""
        await self._ask(Ask.PUT, obstore.put_async, name, content, seconds=seconds)

    async def delete(self, name: str, *, seconds: float) -> bool:
        """Delete an object; whether there was one, as far as the store tells."""
        try:
            await self._ask(Ask.DELETE, obstore.delete_async, name, seconds=seconds)
        except MissingError:
            return False
        return True

    async def listing(self, below: str, *, seconds: float) -> AsyncIterator[Sequence[Listed]]:
        """Pages of the objects below a folder; so many seconds for each page."""
        pages = obstore.list(self.store, below, chunk_size=1000)
        while True:
            page = await self._ask(Ask.LIST, _page, pages, seconds=seconds)
            if page is None:
                return
            yield [Listed(str(m["path"]), int(m["size"]), m["last_modified"]) for m in page]

    async def _ask(
        self,
        kind: Ask,
        call: Callable[..., Awaitable[_Got]],
        *given: Any,
        seconds: float,
        **more: Any,
    ) -> _Got:
        """Make one request."""
        if not self.breaker.allows(self.clock()):
            raise self._failure(Trouble.RESTING, f"the store rests: {self.breaker.why}")
        self.asked[kind] = self.asked.get(kind, 0) + 1
        try:
            async with asyncio.timeout(seconds):
                found = await call(self.store, *given, **more)
        except TimeoutError:
            error = self._failure(Trouble.LATE, f"no answer to {kind} within {seconds:g} s")
            self.breaker.failed(self.clock(), str(error))
            raise error from None
        except told.BaseError as error:
            raise self._meaning(error) from error
        except FileNotFoundError as error:
            self._answered()
            raise MissingError(short(error)) from error
        self._answered()
        return found

    def _answered(self) -> None:
        self.breaker.succeeded()
        self.heard, self.trouble, self.said = True, None, ""

    def _meaning(self, error: Exception) -> Exception:
        text, code = str(error), status_of(error)
        if isinstance(error, told.AlreadyExistsError | told.PreconditionError):
            self._answered()
            return ChangedError(short(error))
        if isinstance(error, told.NotFoundError) or code in {404, _NO_SUCH_RANGE}:
            self._answered()
            return MissingError(short(error))
        trouble = _trouble(code, text)
        what = identity.said(text) if code else short(error)
        said = what.removeprefix(str(code)).strip()
        failure = self._failure(trouble, f"HTTP {code}, {said}" if code else what)
        self.breaker.failed(self.clock(), str(failure))
        return failure

    def _failure(self, trouble: Trouble, text: str) -> StoreError:
        self.failed[trouble] = self.failed.get(trouble, 0) + 1
        if trouble is not Trouble.RESTING:
            self.trouble, self.said = trouble, text
        return StoreError(trouble, text)


def open_bucket(uri: str, environment: Mapping[str, str] = os.environ) -> tuple[Bucket, str]:
    """The bucket of a URI, and the folder in it.

    Raises StoreError where the pod has nothing to ask with, before the store is asked.
    """
    scheme, _, rest = uri.partition("://")
    name, _, folder = rest.partition("/")
    if scheme not in {"s3", "gs", "az"} or not name:
        raise StoreError(Trouble.OTHER, f"{uri} is no bucket: s3://, gs:// and az:// are known")
    if sentence := identity.refusal(uri, scheme, environment):
        raise StoreError(Trouble.REFUSED, sentence)
    try:
        store = opened(
            scheme, name, connect=_CONNECT_SECONDS, silence=_WHOLE_SECONDS, whole=_WHOLE_SECONDS
        )
    except told.BaseError as error:
        raise StoreError(Trouble.OTHER, f"{uri} cannot be opened: {short(error)}") from error
    return Bucket(store), folder.strip("/")


def _trouble(code: int, text: str) -> Trouble:
    if code in _BUSY:
        return Trouble.BUSY
    if code in {401, 403} or identity.from_token_service(text, os.environ):
        return Trouble.REFUSED
    return Trouble.OTHER if code else Trouble.UNREACHABLE


async def _whole(store: ObjectStore, name: str) -> tuple[bytes, Version]:
    found = await obstore.get_async(store, name)
    return bytes(await found.bytes_async()), _version(found.meta)


async def _page(_: ObjectStore, pages: Any) -> Any:
    return await anext(pages, None)


def _version(told: Any) -> Version:
    return Version(told.get("e_tag"), told.get("version"))
