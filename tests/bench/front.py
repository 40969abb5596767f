"""What the front costs, beside a reverse proxy: `python -m tests.bench.front --vllm COMMAND`.

One vLLM on CPU with the tiny model. Its HTTP server sends a request through the front or around
it, as a header says, so that all ways are compared in one process, in turn: stock, front, and
stock behind an aiohttp reverse proxy. Single runs on a shared machine differ by more than what is
measured; pairs that are taken within milliseconds of each other do not.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web
from tests.bench.switched import FRONT, HEADER
from tests.support.engine.plans import ON_CPU
from tests.support.onenode import ROOT
from tests.support.ports import free_ports
from tests.support.tinymodel.architectures import Architecture
from tests.support.tinymodel.make_model import make_model

from kindling_runtime.front.asgi import Front, Message, Receive, Send
from kindling_runtime.front.board import FOLDER_VARIABLE
from kindling_runtime.plugins.idle_connections import LONGEST_SWEEPS, MOST, Crowd

STOCK, PROXY = "stock", "proxy"
WAYS: Final = (STOCK, FRONT, PROXY)
START_SECONDS: Final = 600
STREAMS: Final = 32
STREAM_TOKENS: Final = 64
LONG_TOKENS: Final = 256
LONGEST_STEP: Final = 65536

Samples = Mapping[str, list[float]]
"""By way, one of each in every round, so that they are pairs."""


@contextlib.contextmanager
def engine(vllm: str, folder: Path, port: int) -> Iterator[None]:
    """vLLM with the tiny model, from its first answer on; raises TimeoutError."""
    make_model(folder / "tiny", Architecture.QWEN3)
    environment = {
        **ON_CPU,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}",
        FOLDER_VARIABLE: str(folder),
    }
    command = (
        *(vllm, "serve", str(folder / "tiny"), "--served-model-name=tiny", "--enforce-eager"),
        *("--host=127.0.0.1", f"--port={port}", "--max-model-len=2048"),
        *("--disable-uvicorn-access-log", "--middleware=tests.bench.switched.Switched"),
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | environment, stdout=log, stderr=log
        )
    try:
        asyncio.run(answers(port, process, folder / "log"))
        yield
    finally:
        process.terminate()
        process.wait()


async def answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something answers; raises TimeoutError with the log's end where nothing will."""
    deadline = time.monotonic() + START_SECONDS
    async with aiohttp.ClientSession() as session:
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{port}/health"):
                    return
            await asyncio.sleep(1)
    text = await asyncio.to_thread(log.read_text, errors="replace")
    raise TimeoutError(text[-3000:])


@contextlib.contextmanager
def proxy(port: int, target: int) -> Iterator[None]:
    """The reverse proxy, as a process of its own."""
    command = (sys.executable, "-m", "tests.bench.front", "--proxy", str(port), str(target))
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        asyncio.run(answers(port, process, Path(os.devnull)))
        yield
    finally:
        process.terminate()
        process.wait()


async def run_proxy(port: int, target: int) -> None:
    """A plain reverse proxy: every chunk is passed on as it comes."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def pass_on(request: web.Request) -> web.StreamResponse:
            async with session.request(
                request.method,
                f"http://127.0.0.1:{target}{request.path_qs}",
                headers=request.headers,
                data=await request.read(),
            ) as found:
                response = web.StreamResponse(status=found.status)
                response.content_type = found.content_type
                await response.prepare(request)
                async for chunk in found.content.iter_any():
                    await response.write(chunk)
                return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", pass_on)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()


class Client:
    """Asks each way for the same."""

    def __init__(self, session: aiohttp.ClientSession, ports: Mapping[str, int]) -> None:
        self._session = session
        self._ports = ports

    async def request(self, way: str) -> float:
        """Milliseconds of a request of one token."""
        started = time.perf_counter()
        async with self._post(way, tokens=1, stream=False) as response:
            await response.read()
        return (time.perf_counter() - started) * 1000

    async def stream(self, way: str, tokens: int) -> float:
        """Milliseconds from the first token of a stream to its end, a token."""
        first = 0.0
        async with self._post(way, tokens=tokens, stream=True) as response:
            async for _ in response.content.iter_any():
                first = first or time.perf_counter()
        return (time.perf_counter() - first) * 1000 / (tokens - 1)

    async def streams(self, way: str) -> float:
        """Tokens per second of all streams at once."""
        started = time.perf_counter()
        await asyncio.gather(*(self.stream(way, STREAM_TOKENS) for _ in range(STREAMS)))
        return STREAMS * STREAM_TOKENS / (time.perf_counter() - started)

    @contextlib.asynccontextmanager
    async def _post(
        self, way: str, *, tokens: int, stream: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        body = {
            "model": "tiny",
            "prompt": "1",
            "temperature": 0,
            "ignore_eos": True,
            "max_tokens": tokens,
            "stream": stream,
        }
        url = f"http://127.0.0.1:{self._ports[way]}/v1/completions"
        headers = {HEADER: FRONT if way == FRONT else STOCK}
        async with self._session.post(url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield response


async def measure(ports: Mapping[str, int], rounds: int) -> tuple[Samples, Samples, Samples]:
    """Requests, long streams and many streams; the order of the ways changes each round."""
    request, token, rate = ({way: list[float]() for way in WAYS} for _ in range(3))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=LONGEST_STEP) as session:
        client = Client(session, ports)
        for way in WAYS * 20:
            await client.request(way)
        for number in range(rounds):
            for way in turned(number):
                request[way].append(await client.request(way))
        for number in range(max(3, rounds // 25)):
            for way in turned(number):
                token[way].append(await client.stream(way, LONG_TOKENS))
            for way in turned(number):
                rate[way].append(await client.streams(way))
    return request, token, rate


async def alone(chunks: int) -> float:
    """Microseconds of CPU that the front takes of one request with an answer in `chunks` parts."""
    event = (
        b'data: {"id":"cmpl-1","choices":[{"index":0,"text":"a","finish_reason":null}]}' + b"\n\n"
    )

    async def app(_: Message, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _number in range(chunks):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(_: Message) -> None:
        return None

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}
    taken = []
    for asked in (app, Front(app)):
        samples = []
        for _ in range(2000):
            started = time.process_time_ns()
            await asked(scope, receive, send)
            samples.append((time.process_time_ns() - started) / 1000)
        taken.append(statistics.median(samples))
    return taken[1] - taken[0]


def sweep(streams: int) -> float:
    """Microseconds of CPU, once a second, for looking for connections that ask nothing."""
    busy = types.SimpleNamespace(response_complete=False, response_started=True, more_body=False)
    crowd, samples = Crowd(), []
    connections = [Connection(busy) for _ in range(streams)]
    for _ in range(100):
        started = time.process_time_ns()
        crowd.sweep(connections, most=MOST, longest=LONGEST_SWEEPS)
        samples.append((time.process_time_ns() - started) / 1000)
    return statistics.median(samples)


class Connection:
    """What is looked at of one that streams."""

    def __init__(self, cycle: object) -> None:
        self.cycle = cycle
        self.pipeline: list[object] = []


def turned(number: int) -> tuple[str, ...]:
    """The ways in the order of a round: each is as often before another as after it."""
    ways = WAYS if number % 2 else WAYS[::-1]
    return (*ways[number % 3 :], *ways[: number % 3])


def report(request: Samples, token: Samples, rate: Samples) -> str:
    """Markdown: the medians, and the medians of the differences within the rounds."""
    lines = [
        f"n = {len(request[STOCK])} requests, {len(token[STOCK])} streams of {LONG_TOKENS} tokens, "
        f"{len(rate[STOCK])} times {STREAMS} streams of {STREAM_TOKENS} tokens; each way.",
        "",
        "| way | request of one token, p50 | more than stock | between two tokens | of stock "
        f"| tokens/s, {STREAMS} streams | of stock |",
        "|---|---|---|---|---|---|---|",
    ]
    for way in WAYS:
        more = spread([a - b for a, b in zip(request[way], request[STOCK], strict=True)])
        of = spread([a / b for a, b in zip(token[way], token[STOCK], strict=True)])
        share = spread([a / b for a, b in zip(rate[way], rate[STOCK], strict=True)])
        lines.append(
            f"| {way} | {statistics.median(request[way]):.2f} ms | {more} ms "
            f"| {statistics.median(token[way]):.2f} ms | {of} "
            f"| {statistics.median(rate[way]):.0f} | {share} |"
        )
    return "\n".join(lines)


def spread(pairs: list[float]) -> str:
    """Median, and the 95 % interval of the median by order statistics."""
    ordered, count = sorted(pairs), len(pairs)
    reach = 0.98 * count**0.5
    low = ordered[max(0, int(count / 2 - reach))]
    high = ordered[min(count - 1, int(count / 2 + reach))]
    return f"{statistics.median(ordered):.3f} [{low:.3f} … {high:.3f}]"


def main() -> int:
    """Start what is measured, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", help="an installed vLLM for CPU: path of its command")
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--proxy", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.proxy:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run_proxy(*given.proxy))
        return 0
    if given.vllm is None:
        parser.error("--vllm is missing: images/runtime-cpu/requirements.lock is what to install")
    served, fronted = free_ports(2)
    ports = {STOCK: served, FRONT: served, PROXY: fronted}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(engine(given.vllm, folder, served))
        stack.enter_context(proxy(fronted, served))
        load = os.getloadavg()[0]
        taken = asyncio.run(measure(ports, given.rounds))
    print(f"{os.cpu_count()} cores, load average {load:.1f} at the start.")
    print(report(*taken))
    least, most = asyncio.run(alone(1)), asyncio.run(alone(1001))
    print(
        f"CPU of the front alone: {least:.1f} µs a request, {(most - least) / 1000:.2f} µs more a "
        "chunk of its answer."
    )
    print(
        f"CPU of a look for connections that ask nothing, once a second: {sweep(32):.0f} µs at 32 "
        f"streams, {sweep(256):.0f} at 256, {sweep(MOST):.0f} at {MOST}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
