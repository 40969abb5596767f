"""What the engine's `/metrics` says, for whoever asks for one metric of it."""

from typing import Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kindling_runtime import replies

_SECONDS: Final = 2.0
"""An engine that does not tell in this time does not tell."""
_MOST_BYTES: Final = 8 << 20
"""An engine's metrics are some 100 KB."""
_MOST_LINES: Final = 4096


async def read(port: int, *, seconds: float = _SECONDS) -> str | None:
    """The text, empty where it answers with an error; None where nothing answers in time."""
    deadline = replies.within(seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=deadline, auto_decompress=False) as session,
            session.get(
                f"http://127.0.0.1:{port}/metrics", headers=replies.HEADERS, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                return ""
            return await replies.text_of(response, most=_MOST_BYTES)
    except (TimeoutError, aiohttp.ClientError, replies.TooLongError):
        return None


def samples(text: str, metric: str) -> list[Sample] | None:
    """The samples of a metric; None where the text is none of Prometheus'.

    Only lines that begin with its name are read: an engine's metrics are some 100 KB.
    """
    lines = [line for line in text.splitlines() if line.startswith(metric)][:_MOST_LINES]
    try:
        families = list(text_string_to_metric_families("\n".join(lines)))
    except ValueError:
        return None
    return [sample for family in families for sample in family.samples]
