"""Repositories of the Hugging Face hub: hf://ORG/NAME, or a folder of one, at a commit.

huggingface_hub finds the commit, the files with their checksums, and the addresses; it reads the
token from HF_TOKEN. The bytes come in ranges: of a file in Xet storage by hf_xet, of others, and of
those too once Xet has failed, by HTTP from where the hub redirects to.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import aiohttp

from kindling_runtime.contract import Reason
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import ChangedError, FetchError, TransientError
from kindling_runtime.weights.parts import Algorithm, Checksum, Part, RemoteFile
from kindling_runtime.weights.store import PIECE_BYTES, REQUEST_SECONDS, Listing, short
from kindling_runtime.weights.xet import Xet

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile

_log = logging.getLogger(__name__)

_LISTING_SECONDS: Final = 120.0
_ADDRESS_SECONDS: Final = 600.0
"""How long an address is used again: the hub signs them for an hour, and counts each question."""
_REFUSED: Final = frozenset({401, 403, 404, 410})


@dataclass(frozen=True, slots=True)
class _Address:
    url: str
    since: float


class Hub:
    """One repository at one revision."""

    def __init__(self, uri: str, revision: str) -> None:
        # Late: a second and 20 MB that a cache hit does without.
        from huggingface_hub import HfApi
        from huggingface_hub.utils._headers import build_hf_headers

        self._uri = uri
        owner, name, *folder = uri.partition("://")[2].strip("/").split("/")
        self._repository = f"{owner}/{name}"
        self._folder = "/".join(folder)
        self._revision = revision
        self._api = HfApi()
        self._headers = build_hf_headers(library_name="kindling")
        self._commit = ""
        self._session: aiohttp.ClientSession | None = None
        self._addresses: dict[str, _Address] = {}
        self._xet = Xet()

    async def listing(self) -> Listing:
        """All files of the commit; those whose name begins with a dot are the hub's own."""
        try:
            async with asyncio.timeout(_LISTING_SECONDS):
                files = await asyncio.to_thread(self._list)
        except TimeoutError:
            raise TransientError(
                f"the hub did not list it within {_LISTING_SECONDS:.0f} s"
            ) from None
        return Listing(files, resolved=self._commit)

    async def read(self, part: Part, *, skip: int) -> AsyncIterator[Buffer]:
        """A range of a file, by whichever way works."""
        if self._xet.has(part.file.path):
            async for chunk in self._xet.read(part, skip=skip):
                skip += len(chunk)
                yield chunk
            if skip == part.size:
                return
        async for piece in self._by_http(part, skip):
            yield piece

    async def close(self) -> None:
        """Let go of connections."""
        self._xet.close()
        if self._session is not None:
            await self._session.close()

    def _list(self) -> tuple[RemoteFile, ...]:
        from huggingface_hub import constants, errors
        from huggingface_hub.hf_api import RepoFile

        try:
            info = self._api.model_info(self._repository, revision=self._revision or None)
            self._commit = info.sha or self._revision
            found = self._api.list_repo_tree(
                self._repository, self._folder or None, recursive=True, revision=self._commit
            )
            entries = [entry for entry in found if isinstance(entry, RepoFile)]
        except errors.HfHubHTTPError as error:
            raise self._meaning(error.response.status_code, short(error)) from error
        except Exception as error:
            # Whatever its HTTP library raises for a connection that fails.
            raise TransientError(short(error)) from error
        files = [(entry, self._file(entry)) for entry in entries]
        route = f"{constants.ENDPOINT}/api/models/{self._repository}/xet-read-token/{self._commit}"
        self._xet.learn(
            {file.path: entry.xet_hash for entry, file in files if entry.xet_hash is not None},
            route=route,
            headers=self._headers,
        )
        return tuple(file for _, file in files if not file.path.startswith("."))

    def _file(self, entry: "RepoFile") -> RemoteFile:
        path = entry.path.removeprefix(self._folder).removeprefix("/")
        if entry.lfs is not None:
            checksum = Checksum(Algorithm.SHA256, entry.lfs.sha256)
        else:
            checksum = Checksum(Algorithm.GIT_BLOB, entry.blob_id)
        return RemoteFile(path, entry.size, etag=checksum.digest, checksum=checksum)

    async def _by_http(self, part: Part, skip: int) -> AsyncIterator[Buffer]:
        start = part.start + skip
        try:
            url, headers = await self._address(part.file.path)
            headers = {**headers, "Range": f"bytes={start}-{part.end - 1}"}
            async with self._client().get(url, headers=headers) as response:
                if response.status in _REFUSED | {416}:
                    # The signature has run out, or the file has moved: ask the hub again.
                    self._addresses.pop(part.file.path, None)
                    raise TransientError(f"HTTP {response.status} from {response.url.host}")
                whole = start == 0 and part.end == part.file.size
                if response.status != 206 and not (response.status == 200 and whole):
                    raise TransientError(f"HTTP {response.status} from {response.url.host}")
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError(short(error)) from error

    async def _address(self, path: str) -> tuple[str, dict[str, str]]:
        """Where a file's bytes are, with the headers to send there: the token to the hub only."""
        known = self._addresses.get(path)
        if known is not None and time.monotonic() - known.since < _ADDRESS_SECONDS:
            return known.url, {}
        from huggingface_hub import hf_hub_url

        name = f"{self._folder}/{path}" if self._folder else path
        url = hf_hub_url(self._repository, name, revision=self._commit)
        async with self._client().head(
            url, headers=self._headers, allow_redirects=False
        ) as response:
            if response.status in _REFUSED:
                raise self._meaning(response.status, response.reason or "")
            if response.status >= 400:
                raise TransientError(f"HTTP {response.status} from the hub")
            commit = response.headers.get("X-Repo-Commit", self._commit)
            if commit != self._commit:
                raise ChangedError(f"{path} of {self._uri} is of another commit now")
            location = response.headers.get("Location")
        if location is None:
            return url, self._headers
        target = urljoin(str(response.url), location)
        self._addresses[path] = _Address(target, time.monotonic())
        return target, {}

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            waits = aiohttp.ClientTimeout(
                total=None, sock_connect=REQUEST_SECONDS, sock_read=REQUEST_SECONDS
            )
            self._session = aiohttp.ClientSession(
                timeout=waits, read_bufsize=PIECE_BYTES, trust_env=True, auto_decompress=False
            )
        return self._session

    def _meaning(self, status: int, says: str) -> Exception:
        if status not in _REFUSED:
            return TransientError(f"HTTP {status}: {says}")
        at = f" at revision {self._revision}" if self._revision else ""
        return FetchError(
            Reason.STORE_REFUSED,
            f"the hub refuses {self._uri}{at} with HTTP {status}; correct spec.model.weights.uri "
            "and revision, or give a token that may read it in spec.model.weights.tokenSecretRef",
        )
