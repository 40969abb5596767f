"""Xet storage on loopback: what hf_xet itself cut and packed, served as the hub's CAS does.

A file goes through hf_xet's upload into a folder (its `local://` endpoint); the answers are those
of huggingface.co/docs/xet/api: the reconstruction of a range of the file, and ranges of the xorb
that its chunks are in. It has one xorb, since it is below 64 MiB and repeats nothing.
"""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hf_xet
from aiohttp import web
from tests.support.answering import answering
from tests.support.stores.tap import Tap

_HEADER: Final = 8
"""Version, packed size in three bytes, scheme, unpacked size in three bytes (docs/xet/xorb)."""
_PIECE: Final = 1 << 16
TOKEN: Final = "the token of Xet storage"


@dataclass(frozen=True, slots=True)
class Packed:
    """One file: its hash, its xorb, and where each chunk begins in the xorb and in the file."""

    hash: str
    xorb: str
    content: bytes
    at: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Xet(Tap):
    """What is wrong with it, and what it has sent."""

    files: dict[str, Packed]
    url: str = ""
    fails_after: int | None = None
    """Once it has sent so many bytes, it has nothing any more."""

    @property
    def hashes(self) -> dict[str, str]:
        """Of the files by path, as the hub lists them."""
        return {path: file.hash for path, file in self.files.items()}

    async def reconstruction(self, request: web.Request) -> web.Response:
        """Which chunks hold a range of a file, and where they are."""
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401)
        file = next(f for f in self.files.values() if f.hash == request.match_info["hash"])
        asked = request.http_range
        begin, end = asked.start or 0, min(asked.stop or file.offsets[-1], file.offsets[-1])
        if begin >= file.offsets[-1]:
            return web.Response(status=416)
        first = max(i for i, at in enumerate(file.offsets) if at <= begin)
        last = min(i for i, at in enumerate(file.offsets) if at >= end)
        chunks = {"start": first, "end": last}
        where = {
            "range": chunks,
            "url": f"{self.url}/xorbs/{file.xorb}",
            "url_range": {"start": file.at[first], "end": file.at[last] - 1},
        }
        size = file.offsets[last] - file.offsets[first]
        return web.json_response(
            {
                "offset_into_first_range": begin - file.offsets[first],
                "terms": [{"hash": file.xorb, "unpacked_length": size, "range": chunks}],
                "fetch_info": {file.xorb: [where]},
            }
        )

    async def xorb(self, request: web.Request) -> web.StreamResponse:
        """A range of a xorb, at an address that needs no token."""
        file = next(f for f in self.files.values() if f.xorb == request.match_info["hash"])
        body = file.content[request.http_range]
        if self.fails_after is not None and self.sent >= self.fails_after:
            return web.Response(status=404)
        response = web.StreamResponse(status=206, headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        for at in range(0, len(body), _PIECE):
            await self.may_send()
            with contextlib.suppress(ConnectionError):  # a fetch that was killed
                await response.write(body[at : at + _PIECE])
            self.sent += len(body[at : at + _PIECE])
        return response


def packed(folder: Path, content: bytes) -> Packed:
    """What hf_xet makes of a file, in a folder of its own."""
    folder.mkdir()
    commit = hf_xet.XetSession().new_upload_commit(endpoint=f"local://{folder}")
    handle = commit.start_upload_bytes(content)
    commit.wait_to_finish()
    (xorb,) = folder.glob("**/default.*[0-9a-f]")
    stored = xorb.read_bytes()
    at, offsets = [0], [0]
    while offsets[-1] < len(content):
        header = stored[at[-1] : at[-1] + _HEADER]
        at.append(at[-1] + _HEADER + int.from_bytes(header[1:4], "little"))
        offsets.append(offsets[-1] + int.from_bytes(header[5:8], "little"))
    name = xorb.name.removeprefix("default.")
    return Packed(handle.result().xet_info.hash, name, stored, tuple(at), tuple(offsets))


@contextlib.asynccontextmanager
async def serving(folder: Path, files: dict[str, bytes]) -> AsyncIterator[Xet]:
    """Pack the files and serve them while the context lasts."""
    numbers = itertools.count()
    made = {path: packed(folder / str(next(numbers)), files[path]) for path in files}
    storage = Xet(files=made)
    app = web.Application()
    app.router.add_get("/v1/reconstructions/{hash}", storage.reconstruction)
    app.router.add_get("/xorbs/{hash}", storage.xorb)
    async with answering(app) as storage.url:
        try:
            yield storage
        finally:
            storage.release()


def read_token(storage: Xet) -> dict[str, object]:
    """What the hub answers for a token to read."""
    return {"accessToken": TOKEN, "exp": int(time.time()) + 3600, "casUrl": storage.url}
