"""A pod with a real vLLM is told to leave while streams run; prints what clients saw, as JSON.

Runs in the CPU image. The case is JSON in the first argument: folder of the model, streams, tokens
of each.
"""

import asyncio
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from tests.contract.engine import vllm_pod as pods

UNLISTED = ("/tokenize", "/invocations", "/scale_elastic_ep", "/sleep", "/docs")


async def newcomers(seen: list[Any]) -> None:
    """A new client four times a second: status and Retry-After, None once nobody listens."""
    timeout = aiohttp.ClientTimeout(total=120)
    while True:
        body = {"model": "tiny", "prompt": "a", "max_tokens": 1}
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            try:
                async with session.post(f"{pods.ENGINE}/v1/completions", json=body) as response:
                    seen.append([response.status, response.headers.get("Retry-After")])
            except aiohttp.ClientError:
                seen.append(None)
        await asyncio.sleep(0.25)


async def leave(folder: str, streams: int, tokens: int, place: Path) -> dict[str, Any]:
    """One pod from its start to its end."""
    async with pods.running(pods.plan(folder), place) as pod, pod.watched():
        await pod.ready()
        denied = {}
        for path in UNLISTED:
            async with pod.session.post(pods.ENGINE + path, json={}) as response:
                denied[path] = response.status
        clients = await pods.streams(pod, streams, tokens)
        seen: list[Any] = []
        pod.process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        asking = asyncio.create_task(newcomers(seen))
        ends = await asyncio.gather(*clients)
        finished = time.monotonic() - told
        status, ended = await pod.end()
        asking.cancel()
        return {
            "denied": denied,
            "ends": ends,
            "newcomers": seen,
            "unready_seconds": pod.unready_after(told),
            "finished_seconds": finished,
            "exit_seconds": ended - told,
            "exit_status": status,
            "message": pod.last_words,
        }


def main() -> None:
    """Print the outcome."""
    folder, streams, tokens = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        seen = asyncio.run(leave(folder, streams, tokens, Path(place) / "pod"))
    sys.stdout.write(f"\n{json.dumps(seen)}\n")


if __name__ == "__main__":
    main()
