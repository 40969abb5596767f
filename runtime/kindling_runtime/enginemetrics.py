"""What the engine's `/metrics` says, for whoever asks for one metric of it."""

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_SECONDS = 2
"""An engine that does not tell in this time does not tell."""


async def read(port: int) -> str | None:
    """The text, empty where it answers with an error; None where nothing answers in time."""
    deadline = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=deadline) as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as response,
        ):
            return await response.text(errors="replace") if response.status == 200 else ""
    except (TimeoutError, aiohttp.ClientError):
        return None


def samples(text: str, metric: str) -> list[Sample] | None:
    """The samples of a metric; None where the text is none of Prometheus'.

    Only lines that begin with its name are read: an engine's metrics are some 100 KB.
    """
    lines = [line for line in text.splitlines() if line.startswith(metric)]
    try:
        families = list(text_string_to_metric_families("\n".join(lines)))
    except ValueError:
        return None
    return [sample for family in families for sample in family.samples]
