"""Object stores: s3://, gs:// and az://, by the pod's own workload identity.

Credentials are those that obstore finds by itself: IRSA (AWS_WEB_IDENTITY_TOKEN_FILE), EKS Pod
Identity (AWS_CONTAINER_CREDENTIALS_FULL_URI), GKE's metadata server, Azure workload identity
(AZURE_FEDERATED_TOKEN_FILE). Its errors carry no secret.
"""

import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore import exceptions as told
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from kindling_runtime.contract import Reason
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import ChangedError, FetchError, TransientError
from kindling_runtime.weights.parts import Algorithm, Checksum, Part, RemoteFile
from kindling_runtime.weights.store import PIECE_BYTES, REQUEST_SECONDS, Listing, short

_MD5: Final = re.compile(r'"?([0-9a-f]{32})"?')
_STATUS: Final = re.compile(r"status code: (\d{3})")
_PASSING: Final = frozenset({408, 425, 429})
_PLAIN_HTTP: Final = {
    "s3": "AWS_ALLOW_HTTP",
    "gs": "GOOGLE_ALLOW_HTTP",
    "az": "AZURE_ALLOW_HTTP",
}
_HASHES_IN_ETAGS: Final = ("s3", "gs")
"""An object that was uploaded in one piece has its MD5 as ETag there; Azure's count changes."""


class Objects:
    """The objects below one prefix."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._scheme, _, rest = uri.partition("://")
        self._bucket, _, prefix = rest.partition("/")
        self._prefix = prefix.strip("/")
        self._store = _store(self._scheme, self._bucket)

    async def listing(self) -> Listing:
        """All objects below the prefix, markers of folders left out."""
        files = []
        try:
            async for page in obstore.list(self._store, self._prefix or None, chunk_size=1000):
                files += [self._file(each) for each in page]
        except told.BaseError as error:
            raise self._meaning(error) from error
        return Listing(tuple(file for file in files if file.path))

    async def read(self, part: Part, *, skip: int) -> AsyncIterator[Buffer]:
        """A range of an object, for as long as it is the one that was listed."""
        path = f"{self._prefix}/{part.file.path}" if self._prefix else part.file.path
        options: Any = {"range": (part.start + skip, part.end)}
        if part.file.etag:
            options["if_match"] = part.file.etag
        try:
            found = await obstore.get_async(self._store, path, options=options)
            async for piece in found.stream(min_chunk_size=PIECE_BYTES):
                yield memoryview(piece)
        except told.BaseError as error:
            raise self._meaning(error) from error

    async def close(self) -> None:
        """Connections end with the process."""

    def _file(self, meta: Any) -> RemoteFile:
        path = str(meta["path"])
        if self._prefix:
            path = path.removeprefix(self._prefix).removeprefix("/")
        etag = meta["e_tag"] or ""
        plain = _MD5.fullmatch(etag) if self._scheme in _HASHES_IN_ETAGS else None
        checksum = Checksum(Algorithm.MD5, plain[1]) if plain else None
        return RemoteFile(path, int(meta["size"]), etag, checksum)

    def _meaning(self, error: Exception) -> Exception:
        match error:
            case told.PreconditionError():
                return ChangedError(f"an object in {self._uri} is not the one that was listed")
            case told.PermissionDeniedError() | told.UnauthenticatedError():
                return self._refusal(error, 403)
            case told.NotFoundError():
                return self._refusal(error, 404)
            case told.UnknownConfigurationKeyError() | told.InvalidPathError():
                return self._refusal(error, 400)
        # Of a listing, and of the token service, the status stands in the text only.
        status = _STATUS.search(str(error))
        code = int(status[1]) if status else 0
        if 400 <= code < 500 and code not in _PASSING:
            return self._refusal(error, code)
        return TransientError(short(error))

    def _refusal(self, error: Exception, code: int) -> FetchError:
        if code in {401, 403}:
            what = "refuses the pod's identity"
            fix = "let the pod's ServiceAccount list and read it, or correct its role"
        else:
            what = "does not exist" if code == 404 else f"cannot be asked, HTTP {code}"
            fix = "correct spec.model.weights.uri"
        sentence = f"{self._uri} {what} ({short(error)}); {fix}"
        return FetchError(Reason.STORE_REFUSED, sentence)


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
            return AzureStore(container, client_options=client, retry_config=retry, **more)
