"""A store of models that means harm: it lists what it likes and answers a read as it is told to."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from tests.support.answering import answering
from tests.support.weights.store import COMMIT, EMPTY, leading_to, listed

URI = "hf://org/tiny"
BUCKET = "s3://weights/tiny"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclasses.dataclass(slots=True)
class Hub:
    """What it lists, and how it answers a question for a file."""

    entries: list[dict[str, object]]
    answer: Answer
    page: int = 0
    """So many more files are on each further page of its listing and of a bucket's, without end."""
    page_seconds: float = 0.0
    url: str = ""
    seen: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """Method, address and Authorization of each question."""

    @property
    def environment(self) -> dict[str, str]:
        """What leads a fetch here, with a token that nobody else may see."""
        return {
            **leading_to(self.url),
            "HF_TOKEN": "hf_secret_of_the_hub",
        }


async def content(_: web.Request) -> web.Response:
    """What `listed` has by default."""
    return web.Response(body=EMPTY, headers={"X-Repo-Commit": COMMIT})


@contextlib.asynccontextmanager
async def running(
    entries: list[dict[str, object]],
    answer: Answer = content,
    *,
    page: int = 0,
    page_seconds: float = 0.0,
) -> AsyncIterator[Hub]:
    """Serve while the context lasts."""
    hub = Hub(entries, answer, page, page_seconds)

    async def ask(request: web.Request) -> web.StreamResponse:
        told = request.headers.get("Authorization", "")
        hub.seen.append((request.method, str(request.url), told))
        path = request.path
        if path.startswith("/api/models/") and "/tree/" in path:
            return await _tree(hub, request)
        if path == "/weights":
            return await _objects(hub)
        if path.startswith("/api/models/"):
            return web.json_response({"id": "org/tiny", "modelId": "org/tiny", "sha": COMMIT})
        return await hub.answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", ask)
    async with answering(app) as hub.url:
        yield hub


async def _tree(hub: Hub, request: web.Request) -> web.Response:
    names = await _names(hub)
    further = {"Link": f'<{hub.url}{request.path}?cursor={len(hub.seen)}>; rel="next"'}
    entries = [*hub.entries, *map(listed, names)]
    return web.json_response(entries, headers=further if hub.page else {})


async def _objects(hub: Hub) -> web.Response:
    rows = "".join(
        f"<Contents><Key>tiny/{name}</Key><Size>2</Size><ETag>1</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for name in await _names(hub)
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{len(hub.seen)}"
    text = f"<ListBucketResult>{more}</NextContinuationToken>{rows}</ListBucketResult>"
    return web.Response(text=text, content_type="application/xml")


async def _names(hub: Hub) -> list[str]:
    await asyncio.sleep(hub.page_seconds)
    return [f"{len(hub.seen)}-{number}" for number in range(hub.page)]
