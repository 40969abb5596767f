"""Repositories of the Hugging Face hub: hf://ORG/NAME, or a folder of one, at a commit.

huggingface_hub finds the commit, the files with their checksums, and the addresses; it reads the
token from HF_TOKEN. The bytes come in ranges: of a file in Xet storage by hf_xet, of others, and of
those too once Xet has failed, by HTTP from where the hub redirects to.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import aiohttp

from kindling_runtime import replies
from kindling_runtime.contract import Reason
from kindling_runtime.foreign import quoted
from kindling_runtime.objectstore.words import short
from kindling_runtime.weights.digests import Buffer
from kindling_runtime.weights.errors import ChangedError, FetchError, TransientError
from kindling_runtime.weights.parts import Algorithm, Checksum, Part, RemoteFile
from kindling_runtime.weights.patience import asked_wait
from kindling_runtime.weights.store import PIECE_BYTES, REQUEST_SECONDS, Catch, Listing
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
        owner, _, rest = uri.partition("://")[2].strip("/").partition("/")
        name, *folder = rest.split("/")
        if not name:
            raise FetchError(
                Reason.STORE_REFUSED,
                f"{uri} names no repository of the hub; write hf://ORG/NAME in"
                " spec.model.weights.uri",
            )
        self._repository = f"{owner}/{name}"
        self._folder = "/".join(folder)
        self._revision = revision
        self._api = HfApi()
        self._headers = build_hf_headers(library_name="kindling")
        self._commit = ""
        self._session: aiohttp.ClientSession | None = None
        self._addresses: dict[str, _Address] = {}
        self._xet = Xet()
        self._catch = Catch(uri)

    @property
    def come(self) -> int:
        """Files that the last listing has brought so far."""
        return len(self._catch.files)

    async def listing(self) -> Listing:
        """All files of the commit; those whose name begins with a dot are the hub's own."""
        catch = self._catch = Catch(self._uri)
        given_up = threading.Event()
        try:
            async with asyncio.timeout(_LISTING_SECONDS):
                files = await asyncio.to_thread(self._list, catch, given_up)
        except TimeoutError:
            raise TransientError(
                f"the hub listed {self.come} files within {_LISTING_SECONDS:.0f} s, and not all"
            ) from None
        finally:
            given_up.set()
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

    def _list(self, catch: Catch, given_up: threading.Event) -> tuple[RemoteFile, ...]:
        from huggingface_hub import constants, errors
        from huggingface_hub.hf_api import RepoFile

        hashes: dict[str, str] = {}
        try:
            info = self._api.model_info(self._repository, revision=self._revision or None)
            self._commit = info.sha or self._revision
            found = self._api.list_repo_tree(
                self._repository, self._folder or None, recursive=True, revision=self._commit
            )
            for entry in found:
                if given_up.is_set():
                    raise TransientError("nobody waits for it any more")
                if isinstance(entry, RepoFile):
                    catch.add(self._file(entry))
                    if entry.xet_hash is not None:
                        hashes[catch.files[-1].path] = entry.xet_hash
        except errors.HfHubHTTPError as error:
            answer = error.response
            if answer.status_code not in _REFUSED:
                raise _passing(answer.status_code, "the hub", answer.headers) from error
            raise self._refusal(answer.status_code) from error
        except FetchError:
            raise
        except Exception as error:
            # Whatever its HTTP library raises for a connection that fails.
            raise TransientError(short(error)) from error
        route = f"{constants.ENDPOINT}/api/models/{self._repository}/xet-read-token/{self._commit}"
        self._xet.learn(hashes, route=route, headers=self._headers)
        return tuple(file for file in catch.files if not file.path.startswith("."))

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
            span = f"bytes={start}-{part.end - 1}"
            headers = {**headers, **replies.HEADERS, "Range": span}
            async with self._client().get(url, headers=headers) as response:
                if response.status in _REFUSED | {416}:
                    # The signature has run out, or the file has moved: ask the hub again.
                    self._addresses.pop(part.file.path, None)
                    raise TransientError(f"HTTP {response.status} from {response.url.host}")
                whole = start == 0 and part.end == part.file.size
                if response.status != 206 and not (response.status == 200 and whole):
                    raise _passing(response.status, str(response.url.host), response.headers)
                if (wrong := _otherwise(response, start, part)) is not None:
                    raise TransientError(f"{response.url.host} {wrong}")
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            # An address that is none is a ValueError.
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
                raise self._refusal(response.status)
            if response.status >= 400:
                raise _passing(response.status, "the hub", response.headers)
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

    def _refusal(self, status: int) -> FetchError:
        at = f" at revision {self._revision}" if self._revision else ""
        return FetchError(
            Reason.STORE_REFUSED,
            f"the hub refuses {self._uri}{at} with HTTP {status}; correct spec.model.weights.uri "
            "and revision, or give a token that may read it in spec.model.weights.tokenSecretRef",
        )


def _otherwise(response: aiohttp.ClientResponse, start: int, part: Part) -> str | None:
    """What comes instead of the bytes that were asked for, as a clause; None where they do. Their
    checksum would only tell that they are others, and blame the file."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        return f"sends {quoted(encoding)} though asked for the bytes as they are"
    told = response.headers.get("Content-Range", "") if response.status == 206 else ""
    span = f"{start}-{part.end - 1}"
    if told and told.removeprefix("bytes ").partition("/")[0].strip() != span:
        return f"sends {quoted(told)} though asked for bytes {span}"
    return None


def _passing(status: int, who: str, headers: Mapping[str, str]) -> TransientError:
    """What may be otherwise the next time: too many requests, or a server's own trouble."""
    wait = asked_wait(headers, now=datetime.now(UTC))
    return TransientError(f"HTTP {status} from {who}", wait=wait)
