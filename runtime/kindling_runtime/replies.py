"""What others answer over HTTP: no more of it is read than anybody would, and nothing unpacked."""

from typing import Final

import aiohttp

HEADERS: Final = {"Accept-Encoding": "identity"}
"""What is small must not become large."""


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
