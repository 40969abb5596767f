"""What others answer over HTTP: no more of it is read than anybody would, and nothing unpacked."""

import math
from typing import Final

import aiohttp

HEADERS: Final = {"Accept-Encoding": "identity"}
"""What is small must not become large."""


def within(seconds: float) -> aiohttp.ClientTimeout:
    """For the whole of a request, to the moment: aiohttp alone ends what may take 5 s or more only
    with the next full second of its clock."""
    return aiohttp.ClientTimeout(total=seconds, ceil_threshold=math.inf)


class TooLongError(Exception):
    """A body of more bytes than anybody would read; the text is how many."""


async def text_of(response: aiohttp.ClientResponse, *, most: int) -> str:
    """The body as text, whatever encoding it claims; raises TooLongError above `most` bytes."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most:
            raise TooLongError(f"more than {most} bytes")
    return body.decode(errors="replace")
