"""Object stores: s3://, gs:// and az://, by the pod's own workload identity.

Credentials are those that obstore finds by itself: IRSA (AWS_WEB_IDENTITY_TOKEN_FILE), EKS Pod
Identity (AWS_CONTAINER_CREDENTIALS_FULL_URI), GKE's metadata server, Azure workload identity
(AZURE_FEDERATED_TOKEN_FILE). It renews them five minutes before their end. Its errors carry no
secret; of what a store answers only code and message are told.
"""

import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any, Final

import obstore
from obstore import exceptions as told
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from kindling_runtime.contract import Reason
from kindling_runtime.weights import identity
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import ChangedError, FetchError, TransientError
from kindling_runtime.weights.parts import Part, RemoteFile, md5_in
from kindling_runtime.weights.store import REQUEST_SECONDS, Catch, Listing, Pieces, short

_STATUS: Final = re.compile(r"status code: (\d{3})")
_NO_SUCH_RANGE: Final = 416
_PASSING: Final = frozenset({408, 425, 429})
_EXPIRED: Final = "<Code>ExpiredToken</Code>"
"""S3 says so with status 400 (its list of error codes)."""
_ISSUER_UNHEARD: Final = "IDPCommunicationError"
"""STS could not ask the cluster's issuer: status 400, to be tried again (its API reference)."""
_NO_HTTP: Final = "HTTP error: builder error"
"""Of a client that may use https alone: no request is built."""
_PLAIN_HTTP: Final = {
    "s3": "AWS_ALLOW_HTTP",
    "gs": "GOOGLE_ALLOW_HTTP",
    "az": "AZURE_ALLOW_HTTP",
}
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
        self._access = _Access(_store(self._scheme, self._bucket))
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
        code = _code(error, text)
        # Where it has become shorter, a store may look at the range first.
        if isinstance(error, told.PreconditionError) or code == _NO_SUCH_RANGE:
            return ChangedError(f"an object in {self._uri} is not the one that was listed")
        if identity.from_token_service(text, os.environ) and _is_final(code, text):
            sentence = identity.token_refused(self._scheme, identity.said(text), os.environ)
            return FetchError(Reason.STORE_REFUSED, sentence)
        if _NO_HTTP in text:
            return FetchError(
                Reason.STORE_REFUSED,
                f"{self._uri} is not asked over plain http; name an https endpoint",
            )
        if not _is_final(code, text):
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
            self._access = _Access(_store(self._scheme, self._bucket))
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


def _code(error: Exception, text: str) -> int:
    """The HTTP status of an error; 0 where there is none."""
    match error:
        case told.PermissionDeniedError() | told.UnauthenticatedError():
            return 403
        case told.NotFoundError():
            return 404
        case told.UnknownConfigurationKeyError() | told.InvalidPathError():
            return 400
    # Of a listing, and of the token service, the status stands in the text only.
    status = _STATUS.search(text)
    return int(status[1]) if status else 0


def _is_final(code: int, text: str) -> bool:
    """Whether asking again would be answered the same."""
    return 400 <= code < 500 and code not in _PASSING and _ISSUER_UNHEARD not in text


def _store(scheme: str, bucket: str) -> ObjectStore:
    # Requests are repeated by the download itself, which knows what has arrived; obstore's own
    # attempts are for the tokens that it fetches.
    client: Any = {
        # Options that are given in code replace those of the environment, this one among them.
        "allow_http": os.environ.get(_PLAIN_HTTP[scheme]) == "true",
        "connect_timeout": timedelta(seconds=10),
        "read_timeout": timedelta(seconds=REQUEST_SECONDS),
        "timeout": timedelta(hours=1),
    }
    retry: Any = {"max_retries": 1, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)}
    match scheme:
        case "s3":
            return S3Store(bucket, client_options=client, retry_config=retry)
        case "gs":
            return GCSStore(bucket, client_options=client, retry_config=retry)
        case _:
            container, _, account = bucket.partition("@")
            more: Any = {"account_name": account.partition(".")[0]} if account else {}
            # AKS ends it with a slash, and obstore would begin the path with another one.
            if authority := os.environ.get("AZURE_AUTHORITY_HOST"):
                more["authority_host"] = authority.rstrip("/")
            return AzureStore(container, client_options=client, retry_config=retry, **more)
