"""Real object stores, each a process of its own behind TLS, and how a test writes to them.

S3 is the Versity gateway, which checks each signature; GCS is fake-gcs-server; Azure is Azurite,
which checks each token's audience, issuer and time. Objects are written over the stores' own REST
APIs, not by the library that reads them.
"""

import abc
import base64
import contextlib
import hashlib
import hmac
import io
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import quote

import aiohttp
from tests.support.ports import free_ports
from tests.support.stores import programs
from tests.support.stores.tls import Tls
from tests.support.stores.tokens import TENANT, Tokens, signed
from tests.support.waiting import until
from yarl import URL

from kindling_runtime.weights.manifest import Basis

START_SECONDS: Final = 30
ACCOUNT: Final = "devstoreaccount1"
_ACCESS_KEY: Final = "AKIAROOTOFTHETESTS00"
_SECRET_KEY: Final = "secret-of-the-root-of-the-tests"
_SESSIONS: Final = "sessions"
_REGION: Final = "us-east-1"


@dataclass(frozen=True, slots=True)
class RealStore(abc.ABC):
    """A running store."""

    port: int
    tls: Tls
    sessions: Path
    """Where it looks up the credentials that a test's token services give out."""
    basis: ClassVar[Basis] = Basis.LENGTH
    """What an object that was uploaded in one piece is compared with."""
    takes_parts: ClassVar[bool] = True
    keeps_folders: ClassVar[bool] = True
    misses_buckets: ClassVar[bool] = True
    has_pages: ClassVar[bool] = True
    knows_rights: ClassVar[bool] = True
    """Whether it can know somebody who may not read."""

    @abc.abstractmethod
    def uri(self, bucket: str, prefix: str) -> str:
        """What a model's spec.model.weights.uri would be."""

    @abc.abstractmethod
    def environment(self, port: int) -> dict[str, str]:
        """What leads a fetch to it, through `port`."""

    @abc.abstractmethod
    def identity(self, tokens: Tokens) -> dict[str, str]:
        """What gives a pod the right to read."""

    @abc.abstractmethod
    async def make(self, bucket: str) -> None:
        """A new bucket."""

    @abc.abstractmethod
    async def put(self, bucket: str, name: str, content: bytes) -> None:
        """An object, as it is named, in one piece."""

    async def put_in_parts(self, bucket: str, name: str, parts: Sequence[bytes]) -> None:
        """An object that was uploaded in pieces."""
        raise NotImplementedError

    async def fill(self, bucket: str, prefix: str, files: Mapping[str, bytes]) -> None:
        """A new bucket with these files."""
        await self.make(bucket)
        for path, content in files.items():
            await self.put(bucket, f"{prefix}/{path}", content)

    async def _ask(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[Mapping[str, str], bytes]:
        """`path` is encoded, with its query; raises AssertionError for what the store refuses."""
        url = URL(f"https://localhost:{self.port}{path}", encoded=True)
        connector = aiohttp.TCPConnector(ssl=self.tls.of_client)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, url, data=io.BytesIO(body), headers=headers) as answer,
        ):
            said = await answer.read()
            assert answer.status < 300, f"{method} {path}: HTTP {answer.status} {said!r}"
            return answer.headers, said


class S3(RealStore):
    """The Versity S3 gateway."""

    basis = Basis.STORE

    def uri(self, bucket: str, prefix: str) -> str:
        return f"s3://{bucket}/{prefix}".rstrip("/")

    def environment(self, port: int) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": f"https://localhost:{port}"}

    def identity(self, tokens: Tokens) -> dict[str, str]:
        return tokens.irsa()

    async def make(self, bucket: str) -> None:
        await self._signed("PUT", f"/{bucket}")

    async def put(self, bucket: str, name: str, content: bytes) -> None:
        await self._signed("PUT", f"/{bucket}/{quote(name)}", body=content)

    async def put_in_parts(self, bucket: str, name: str, parts: Sequence[bytes]) -> None:
        at = f"/{bucket}/{quote(name)}"
        _, begun = await self._signed("POST", at, query="uploads=")
        upload = begun.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        etags = []
        for number, part in enumerate(parts, 1):
            query = f"partNumber={number}&uploadId={quote(upload, safe='')}"
            headers, _ = await self._signed("PUT", at, query=query, body=part)
            etags.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{headers['ETag']}</ETag>")
        body = f"<CompleteMultipartUpload>{'</Part>'.join(etags)}</Part></CompleteMultipartUpload>"
        query = f"uploadId={quote(upload, safe='')}"
        await self._signed("POST", at, query=query, body=body.encode())

    async def _signed(
        self, method: str, path: str, *, query: str = "", body: bytes = b""
    ) -> tuple[Mapping[str, str], bytes]:
        """A request with an AWS Signature Version 4."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/{_REGION}/s3/aws4_request"
        digest = hashlib.sha256(body).hexdigest()
        headers = {
            "host": f"localhost:{self.port}",
            "x-amz-content-sha256": digest,
            "x-amz-date": now,
        }
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
        asked = hashlib.sha256(request.encode()).hexdigest()
        key = b"AWS4" + _SECRET_KEY.encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{asked}"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={_ACCESS_KEY}/{scope}, SignedHeaders={names}, "
            f"Signature={key.hex()}"
        )
        target = f"{path}?{query}" if query else path
        return await self._ask(method, target, body=body, headers=headers)


class Gcs(RealStore):
    """fake-gcs-server, whose ETags are not those of GCS, and which knows no If-Match."""

    takes_parts = False
    has_pages = False
    misses_buckets = False

    def uri(self, bucket: str, prefix: str) -> str:
        return f"gs://{bucket}/{prefix}".rstrip("/")

    def environment(self, port: int) -> dict[str, str]:
        return {"GOOGLE_BASE_URL": f"https://localhost:{port}"}

    def identity(self, tokens: Tokens) -> dict[str, str]:
        return tokens.gke()

    async def make(self, bucket: str) -> None:
        body = b'{"name": "%s"}' % bucket.encode()
        headers = {**self._headers(), "Content-Type": "application/json"}
        await self._ask("POST", "/storage/v1/b", body=body, headers=headers)

    async def put(self, bucket: str, name: str, content: bytes) -> None:
        query = f"uploadType=media&name={quote(name, safe='')}"
        await self._ask(
            "POST",
            f"/upload/storage/v1/b/{bucket}/o?{query}",
            body=content,
            headers=self._headers(),
        )

    def _headers(self) -> dict[str, str]:
        known = {"Reads": True, "Until": time.time_ns()}
        (self.sessions / "writer").write_text(json.dumps(known))
        return {"Authorization": "Bearer writer"}


class Azure(RealStore):
    """Azurite's blob service."""

    knows_rights = False

    def uri(self, bucket: str, prefix: str) -> str:
        return f"az://{bucket}@{ACCOUNT}/{prefix}".rstrip("/")

    def environment(self, port: int) -> dict[str, str]:
        return {"AZURE_STORAGE_ENDPOINT": f"https://localhost:{port}/{ACCOUNT}"}

    def identity(self, tokens: Tokens) -> dict[str, str]:
        return tokens.aks()

    async def make(self, bucket: str) -> None:
        await self._ask("PUT", f"/{ACCOUNT}/{bucket}?restype=container", headers=self._headers())

    async def put(self, bucket: str, name: str, content: bytes) -> None:
        headers = {**self._headers(), "x-ms-blob-type": "BlockBlob"}
        await self._ask("PUT", f"/{ACCOUNT}/{bucket}/{quote(name)}", body=content, headers=headers)

    async def put_in_parts(self, bucket: str, name: str, parts: Sequence[bytes]) -> None:
        at, listed = f"/{ACCOUNT}/{bucket}/{quote(name)}", []
        for number, part in enumerate(parts):
            block = base64.b64encode(f"{number:08}".encode()).decode()
            query = f"comp=block&blockid={quote(block, safe='')}"
            await self._ask("PUT", f"{at}?{query}", body=part, headers=self._headers())
            listed.append(f"<Latest>{block}</Latest>")
        body = f"<BlockList>{''.join(listed)}</BlockList>".encode()
        await self._ask("PUT", f"{at}?comp=blocklist", body=body, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        now = int(time.time())
        claims = {"nbf": now - 60, "iat": now, "exp": now + 600}
        issuer = f"https://sts.windows.net/{TENANT}/"
        token = signed({**claims, "aud": "https://storage.azure.com", "iss": issuer})
        return {"Authorization": f"Bearer {token}", "x-ms-version": "2021-12-02"}


KINDS: Final[Mapping[str, type[RealStore]]] = {"s3": S3, "gs": Gcs, "az": Azure}


@contextlib.contextmanager
def running(kind: str, folder: Path, tls: Tls) -> Iterator[RealStore]:
    """A store with nothing in it, while the context lasts."""
    folder.mkdir()
    (folder / _SESSIONS).mkdir()
    (port,) = free_ports(1)
    command, environment = _command(kind, port, folder, tls)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **environment}, cwd=folder
        )
    try:
        until(f"{kind} store", lambda: _answers(process, port), seconds=START_SECONDS, every=0.05)
        yield KINDS[kind](port, tls, folder / _SESSIONS)
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()


def _command(
    kind: str, port: int, folder: Path, tls: Tls
) -> tuple[tuple[str | Path, ...], dict[str, str]]:
    data = folder / "data"
    data.mkdir()
    safe = (f"--cert={tls.certificate}", f"--key={tls.key}")
    ours = (f"--listen=127.0.0.1:{port}", f"--sessions={folder / _SESSIONS}", *safe)
    match kind:
        case "s3":
            about = folder / "meta"
            about.mkdir()
            program, keys = (
                programs.built() / "s3",
                {
                    "ROOT_ACCESS_KEY": _ACCESS_KEY,
                    "ROOT_SECRET_KEY": _SECRET_KEY,
                },
            )
            return (program, *ours, f"--data={data}", f"--meta={about}"), keys
        case "gs":
            return (programs.built() / "gcs", *ours, f"--host=localhost:{port}"), {}
        case _:
            at = ("--blobHost=127.0.0.1", f"--blobPort={port}", f"--location={data}")
            checks = ("--oauth=basic", "--silent", "--disableTelemetry")
            return (*programs.azurite(), *at, *safe, *checks), {}


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, f"the store ended with {process.returncode}"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def new_bucket() -> str:
    """A name that no test has used yet."""
    return f"weights-{secrets.token_hex(4)}"
