"""A store of weights that a test can break: the hub's and S3's HTTP, as far as a download goes.

It runs in the test's own event loop and counts what it sends. Real stores are in `real.py`.
"""

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from xml.sax.saxutils import escape

from aiohttp import web
from tests.support.answering import answering

COMMIT = "5d7f" + "0" * 36
REPOSITORY = "org/tiny"
CONFIG_REPOSITORY = "org/base"
BUCKET = "weights"
PREFIX = "models/tiny"
EMPTY = b"{}"
_SMALL = 1 << 16
"""Below this a file is no LFS file of the hub."""
_DRIP_SECONDS = 0.02
_PIECE = 1 << 16


@dataclasses.dataclass(slots=True)
class Store:
    """The files by path, what is wrong with the store, and what it has seen."""

    files: dict[str, bytes]
    """Of the bucket, and of org/tiny at `commit`."""
    base: dict[str, bytes] = dataclasses.field(default_factory=dict)
    """Of org/base, which is on the hub too."""
    commit: str = COMMIT
    past: dict[str, dict[str, bytes]] = dataclasses.field(default_factory=dict)
    """The files of org/tiny at earlier commits."""
    url: str = ""
    bytes_per_second: int = 0
    drips: bool = False
    hangs_after: int | None = None
    """Once it has sent so many bytes, it sends nothing more until this is None again."""
    refuses: int = 0
    """The status of every answer, if there is one."""
    limited: int = 0
    """So many of the next answers, or of the reads alone, are 429 with `limits` as headers."""
    limits: dict[str, str] = dataclasses.field(default_factory=dict)
    reads_only: bool = False
    asked_at: list[float] = dataclasses.field(default_factory=list)
    """When each question came (monotonic)."""
    failures: int = 0
    """So many of the next reads end with 503."""
    cuts: int = 0
    """So many of the next reads are cut off in the middle."""
    corrupt: set[str] = dataclasses.field(default_factory=set)
    token: str = ""
    xet: bool = False
    """Whether large files are said to be in Xet storage; without `xet_token` there is none."""
    xet_hashes: dict[str, str] = dataclasses.field(default_factory=dict)
    xet_token: dict[str, object] = dataclasses.field(default_factory=dict)
    """The answer to who asks for a token to read there."""
    sent: int = 0
    reads: int = 0
    begun: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    """Where each read of content began: the path, and the byte."""
    asked: list[str] = dataclasses.field(default_factory=list)
    signed_for_strangers: int = 0
    """Reads of a signed address that came with the hub's token."""

    @property
    def hub_uri(self) -> str:
        return f"hf://{REPOSITORY}"

    @property
    def config_uri(self) -> str:
        return f"hf://{CONFIG_REPOSITORY}"

    @property
    def s3_uri(self) -> str:
        return f"s3://{BUCKET}/{PREFIX}"

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def environment(self) -> dict[str, str]:
        """What leads a fetch here; the keys are nobody's."""
        return leading_to(self.url)


def leading_to(url: str) -> dict[str, str]:
    """The environment of a fetch whose hub and whose bucket are there; the keys are nobody's."""
    return {
        "HF_ENDPOINT": url,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "KINDLING_DEVELOPMENT_STORE": "true",
    }


def listed(path: str, content: bytes = EMPTY, *, size: int | None = None) -> dict[str, object]:
    """An entry of the hub's listing: of `content`, whose size it may lie about."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    told = len(content) if size is None else size
    return {"type": "file", "path": path, "size": told, "oid": blob}


def files_of(*sizes: int) -> dict[str, bytes]:
    """A model of so many weight files, with its small ones."""
    weights = {
        f"model-{number:05}.safetensors": os.urandom(size) for number, size in enumerate(sizes)
    }
    return {"config.json": b'{"architectures": ["Tiny"]}', "sub/tokenizer.json": b"{}", **weights}


@contextlib.asynccontextmanager
async def running(
    files: Mapping[str, bytes], *, host: str = "127.0.0.1", port: int = 0, **wrong: object
) -> AsyncIterator[Store]:
    """Serve `files` at an address of this machine while the context lasts; at any port if 0."""
    store = Store(dict(files), **wrong)  # type: ignore[arg-type]
    app = web.Application(middlewares=[_refusing(store)])
    one = "{repository:org/(tiny|base)}"
    app.router.add_get(f"/api/models/{one}", functools.partial(_info, store))
    app.router.add_get(f"/api/models/{one}/revision/{{revision}}", functools.partial(_info, store))
    app.router.add_get(f"/api/models/{one}/tree/{{revision}}", functools.partial(_tree, store))
    token = f"/api/models/{one}/xet-read-token/{{revision}}"
    app.router.add_get(token, functools.partial(_xet_token, store))
    app.router.add_get(
        f"/{one}/resolve/{{revision}}/{{path:.+}}", functools.partial(_resolve, store)
    )
    app.router.add_get(f"/signed/{one}/{{revision}}/{{path:.+}}", functools.partial(_signed, store))
    app.router.add_get(f"/{BUCKET}", functools.partial(_list, store))
    app.router.add_get(f"/{BUCKET}/{PREFIX}/{{path:.+}}", functools.partial(_content, store))
    async with answering(app, host=host, port=port) as store.url:
        yield store


def _refusing(store: Store):  # type: ignore[no-untyped-def]
    @web.middleware
    async def refuse(request: web.Request, handler) -> web.StreamResponse:  # type: ignore[no-untyped-def]
        store.asked.append(f"{request.method} {request.path}")
        store.asked_at.append(time.monotonic())
        if store.hangs_after == 0:
            await _hang(store)
        if store.refuses:
            return web.Response(status=store.refuses)
        reads = request.path.startswith(("/signed/", f"/{BUCKET}/"))
        if store.limited and (reads or not store.reads_only):
            store.limited -= 1
            return web.Response(status=429, headers=store.limits)
        asks_hub = not request.path.startswith("/signed/")
        known = request.headers.get("Authorization") == f"Bearer {store.token}"
        if store.token and asks_hub and not known:
            return web.Response(status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    return refuse


def _files(store: Store, request: web.Request) -> dict[str, bytes]:
    """What a request is about: a repository at a commit, or the bucket."""
    if request.match_info.get("repository") == CONFIG_REPOSITORY:
        return store.base
    return store.past.get(request.match_info.get("revision", ""), store.files)


async def _info(store: Store, request: web.Request) -> web.Response:
    repository, asked = request.match_info["repository"], request.match_info.get("revision", "")
    sha = asked if asked in store.past else store.commit
    return web.json_response({"id": repository, "modelId": repository, "sha": sha})


async def _tree(store: Store, request: web.Request) -> web.Response:
    entries = []
    for path, content in _files(store, request).items():
        entry = listed(path, content)
        if len(content) >= _SMALL:
            sha = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": sha, "size": len(content), "pointerSize": 130}
            if store.xet:
                entry["xetHash"] = store.xet_hashes.get(path, sha)
        entries.append(entry)
    return web.json_response(entries)


async def _xet_token(store: Store, request: web.Request) -> web.Response:
    return web.json_response(store.xet_token, status=200 if store.xet_token else 404)


async def _resolve(store: Store, request: web.Request) -> web.StreamResponse:
    path = request.match_info["path"]
    headers = {"X-Repo-Commit": request.match_info["revision"]}
    if len(_files(store, request)[path]) >= _SMALL:
        at = "{repository}/{revision}/{path}".format(**request.match_info)
        headers["Location"] = f"{store.url.replace('127.0.0.1', 'localhost')}/signed/{at}"
        return web.Response(status=302, headers=headers)
    return await _content(store, request, headers)


async def _signed(store: Store, request: web.Request) -> web.StreamResponse:
    store.signed_for_strangers += "Authorization" in request.headers
    return await _content(store, request)


async def _list(store: Store, request: web.Request) -> web.Response:
    rows = "".join(
        f"<Contents><Key>{escape(f'{PREFIX}/{path}')}</Key><Size>{len(content)}</Size>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>{escape(_etag(content))}</ETag></Contents>"
        for path, content in store.files.items()
        if f"{PREFIX}/{path}".startswith(request.query.get("prefix", ""))
    )
    text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
    return web.Response(text=text, content_type="application/xml")


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


async def _content(
    store: Store, request: web.Request, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    store.reads += 1
    path = request.match_info["path"]
    content = _files(store, request)[path]
    if request.headers.get("If-Match", _etag(content)) != _etag(content):
        return web.Response(status=412)
    if store.failures:
        store.failures -= 1
        return web.Response(status=503)
    wanted = request.http_range
    start, end = wanted.start or 0, wanted.stop or len(content)
    response = web.StreamResponse(
        status=206 if "Range" in request.headers else 200,
        headers={
            **(headers or {}),
            "Content-Length": str(end - start),
            "Content-Range": f"bytes {start}-{end - 1}/{len(content)}",
            "ETag": _etag(content),
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
        },
    )
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    store.begun.append((path, start))
    cut = store.cuts > 0
    store.cuts -= cut
    body = content[start:end]
    if path in store.corrupt:
        body = bytes([body[0] ^ 1]) + body[1:]
    for offset in range(0, len(body) // 2 if cut else len(body), _PIECE):
        await _send(store, response, body[offset : offset + _PIECE])
    if cut and request.transport is not None:
        request.transport.abort()
    return response


async def _send(store: Store, response: web.StreamResponse, piece: bytes) -> None:
    await _hang(store)
    if store.bytes_per_second:
        await asyncio.sleep(len(piece) / store.bytes_per_second)
    while store.drips and piece:
        await response.write(piece[:1])
        piece = piece[1:]
        await asyncio.sleep(_DRIP_SECONDS)
    await response.write(piece)
    store.sent += len(piece)


async def _hang(store: Store) -> None:
    while True:
        if store.hangs_after is None or store.sent < store.hangs_after:
            return
        await asyncio.sleep(0.02)
