"""Object stores: s3://, gs:// and az://, by the pod's own workload identity.

Errors carry no secret; of what a store answers only code and message are told.
"""

import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import obstore
from obstore import exceptions as told
from obstore.store import ObjectStore

from kindling_runtime.contract import Reason
from kindling_runtime.objectstore import identity
from kindling_runtime.objectstore.opening import is_final, opened, status_of
from kindling_runtime.objectstore.words import short
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import ChangedError, FetchError, TransientError
from kindling_runtime.weights.parts import Part, RemoteFile, md5_in
from kindling_runtime.weights.store import REQUEST_SECONDS, Catch, Listing, Pieces

_NO_SUCH_RANGE: Final = 416
_EXPIRED: Final = "<Code>ExpiredToken</Code>"
"""S3 says so with status 400 (its list of error codes)."""
_NO_HTTP: Final = "HTTP error: builder error"
"""Of a client that may use https alone: no request is built."""
_HASHES_IN_ETAGS: Final = ("s3", "gs")
"""An object that was uploaded in one piece has its MD5 as ETag there; Azure's count changes."""


@dataclass(slots=True)
class _Access:
    """A client with its credentials; `worked` once the store has answered them well."""

    store: ObjectStore
    worked: bool = False


class Objects:
    """The objects below one prefix. Raises FetchError where the pod has no identity to ask with."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._scheme, _, rest = uri.partition("://")
        self._bucket, _, prefix = rest.partition("/")
        self._prefix = prefix.strip("/")
        if sentence := identity.refusal(uri, self._scheme, os.environ):
            raise FetchError(Reason.STORE_REFUSED, sentence)
        self._access = _Access(_opened(self._scheme, self._bucket))
        self._pieces = Pieces()
        self._catch = Catch(uri)

    @property
    def come(self) -> int:
        """Files that the last listing has brought so far."""
        return len(self._catch.files)

    async def listing(self) -> Listing:
        """All objects below the prefix, markers of folders left out."""
        access, catch = self._access, Catch(self._uri)
        self._catch = catch
        try:
            pages = obstore.list(access.store, self._prefix or None, chunk_size=1000)
            async for page in pages:
                for each in page:
                    catch.add(self._file(each))
        except told.BaseError as error:
            raise self._meaning(error, access) from error
        access.worked = True
        return Listing(without_folders(catch.files))

    async def read(self, part: Part, *, skip: int) -> AsyncIterator[Buffer]:
        """A range of an object, for as long as it is the one that was listed."""
        access = self._access
        path = f"{self._prefix}/{part.file.path}" if self._prefix else part.file.path
        options: Any = {"range": (part.start + skip, part.end)}
        if part.file.etag:
            options["if_match"] = part.file.etag
        begun, count = time.monotonic(), 0
        try:
            found = await obstore.get_async(access.store, path, options=options)
            access.worked = True
            async for piece in found.stream(min_chunk_size=self._pieces.size):
                count += len(piece)
                yield memoryview(piece)
        except told.BaseError as error:
            raise self._meaning(error, access) from error
        finally:
            self._pieces.came(count, time.monotonic() - begun)

    async def close(self) -> None:
        """Connections end with the process."""

    def _file(self, meta: Any) -> RemoteFile:
        path = str(meta["path"])
        if self._prefix:
            path = path.removeprefix(self._prefix).removeprefix("/")
        etag = meta["e_tag"] or ""
        checksum = md5_in(etag) if self._scheme in _HASHES_IN_ETAGS else None
        return RemoteFile(path, int(meta["size"]), etag, checksum)

    def _meaning(self, error: Exception, access: _Access) -> Exception:
        text = str(error)
        code = status_of(error)
        # Where it has become shorter, a store may look at the range first.
        if isinstance(error, told.PreconditionError) or code == _NO_SUCH_RANGE:
            return ChangedError(f"an object in {self._uri} is not the one that was listed")
        if identity.from_token_service(text, os.environ) and is_final(code, text):
            sentence = identity.token_refused(self._scheme, identity.said(text), os.environ)
            return FetchError(Reason.STORE_REFUSED, sentence)
        if _NO_HTTP in text:
            return FetchError(
                Reason.STORE_REFUSED,
                f"{self._uri} is not asked over plain http; name an https endpoint",
            )
        if not is_final(code, text):
            return TransientError(short(error))
        unknown = code in {401, 403} or _EXPIRED in text
        if unknown and self._renewed(access):
            return TransientError(f"credentials are good no more ({identity.said(text)})")
        return self._refusal(text, 403 if unknown else code)

    def _renewed(self, access: _Access) -> bool:
        """Whether there is something to try again with: other credentials, since these were good
        and are not. A clock that is wrong, and a role that was changed, end them before their
        time."""
        if access is self._access:
            if not access.worked:
                return False
            self._access = _Access(_opened(self._scheme, self._bucket))
        return True

    def _refusal(self, text: str, code: int) -> FetchError:
        if code in {401, 403}:
            what = f"refuses the pod's identity{identity.named(self._scheme, os.environ)}"
            fix = "let the pod's ServiceAccount list and read it, or correct its role"
        else:
            what = "does not exist" if code == 404 else f"cannot be asked, HTTP {code}"
            fix = "correct spec.model.weights.uri"
        return FetchError(
            Reason.STORE_REFUSED, f"{self._uri} {what} ({identity.said(text)}); {fix}"
        )


def without_folders(files: Sequence[RemoteFile]) -> tuple[RemoteFile, ...]:
    """The files without what consoles and mounted buckets keep for folders: empty objects named
    like the folder, with a slash at the end that obstore drops."""
    folders = {str(parent) for file in files for parent in PurePosixPath(file.path).parents}
    return tuple(f for f in files if f.path and not (f.size == 0 and f.path in folders))


def _opened(scheme: str, bucket: str) -> ObjectStore:
    # Requests are repeated by the download itself, which knows what has arrived.
    return opened(scheme, bucket, connect=10, silence=REQUEST_SECONDS, whole=3600)
