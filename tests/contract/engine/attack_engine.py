"""A real vLLM behind the front, attacked: run inside the CPU image, prints what it saw as JSON."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.contract.engine import vllm_pod as pods
from tests.support.engine.pod import until

from kindling_runtime import contract

DRAIN: Final = contract.Drain(endpoint_seconds=10, stream_seconds=60, grace_seconds=60)
TARGETS: Final = (
    *("/v1/../tokenize", "/v1/%2e%2e/tokenize", "//tokenize", "/%74okenize", "/tokenize/"),
    *("/v1%2f..%2ftokenize", "/tokenize%20", "/tokenize;a", "/tokenize?/v1/models", "/V1/MODELS"),
    *("/v1/models/", "/v1/models/../../tokenize", "http://x/tokenize", "/metrics/../tokenize"),
    *("/v1/completions/../../invocations", "/metrics/", "/health/x"),
    *("/scale_elastic_ep", "/sleep", "/docs", "/openapi.json", "/server_info", "/v1/embeddings"),
    *("/v1/models%00/../tokenize", "/v1/load_lora_adapter", "/reset_prefix_cache", "/pause", "/"),
)
METHODS: Final = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "PATCH")
LIES: Final = (
    "X-Forwarded-Prefix: /v1\r\nX-Original-URL: /tokenize\r\nX-Rewrite-URL: /tokenize\r\n"
    "X-HTTP-Method-Override: POST\r\nForwarded: for=127.0.0.1\r\n"
)
DESCRIPTORS: Final = 1024
"""As many as each process of the story may have; the runtime wants no fewer."""
CROWDED_TOKENS: Final = 1500
BODY: Final = '{"model":"tiny","prompt":"a"}'


async def asked(method: str, target: str) -> int:
    """The status of a raw request; 0 where the connection just ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", pods.PORT)
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{LIES}"
    writer.write(f"{head}Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode())
    line = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        line = await asyncio.wait_for(reader.readline(), 30)
    writer.close()
    return int(line.split()[1]) if line else 0


async def attack(folder: str, place: Path) -> dict[str, Any]:
    """All of it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    async with pods.running(pods.plan(folder, drain=DRAIN), place) as pod:
        await pod.ready()
        passed = {}
        for target in TARGETS:
            for method in METHODS:
                status = await asked(method, target)
                if status not in {400, 404}:
                    passed[f"{method} {target}"] = status
        seen = await crowded(pod)
        crowd = [await asyncio.open_connection("127.0.0.1", pods.PORT) for _ in range(300)]
        for _, writer in crowd[::2]:
            writer.write(b"POST /v1/completions HTTP/1.1\r\nA: ")
        clients = await pods.streams(pod, 4, 300)
        pod.process.send_signal(signal.SIGTERM)
        ends = [await client for client in clients]
        status, _ = await pod.end()
        for _, writer in crowd:
            writer.close()
        return {**seen, "passed": passed, "ends": ends, "exit": status, "message": pod.last_words}


async def crowded(pod: pods.Pod) -> dict[str, Any]:
    """More connections than descriptors, of which none asks anything, while a stream runs."""
    [client] = await pods.streams(pod, 1, CROWDED_TOKENS)
    server = Path(f"/proc/{pods.engine_processes(pod)['server']}/fd")
    async with pod.watched(), contextlib.AsyncExitStack() as stack:
        # From processes of their own, which have no more descriptors than the server.
        for _ in range(2):
            await stack.enter_async_context(strangers(DESCRIPTORS * 2 // 3))
        begun = time.monotonic()
        [asked] = await pods.streams(pod, 1, 1)
        served = [await asked, time.monotonic() - begun]
        await until(lambda: len(list(server.iterdir())) < DESCRIPTORS - 200)
        stream = await client
    states = {each["name"]: each["state"] for each in (await pod.status())["plugins"]}
    unready = [look for look in pod.looks if not look.ready]
    return {"served": served, "stream": stream, "plugins": states, "unready": len(unready)}


@contextlib.asynccontextmanager
async def strangers(count: int) -> AsyncIterator[None]:
    """So many connections that ask nothing, or do not end what they ask, while the context lasts;
    what the server ends stays ended."""
    module = (sys.executable, "-m", "tests.contract.engine.attack_engine", "strangers")
    process = await asyncio.create_subprocess_exec(
        *module,
        *(str(pods.PORT), str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"connected\n"
        yield
    finally:
        process.stdin.close()
        await process.wait()


def be_strangers(port: int, count: int) -> None:
    """The process of `strangers`."""
    crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in crowd[::2]:
        each.sendall(b"POST /v1/completions HTTP/1.1\r\nA: ")
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    sys.stdin.read()


async def counted(folder: str, place: Path) -> dict[str, Any]:
    """Two API servers, both of which count; stopped while a stream runs."""
    orders = pods.plan(folder, drain=DRAIN, arguments=("--api-server-count=2",))
    front = msgspec.structs.replace(contract.Front(), servers=2)
    async with pods.running(msgspec.structs.replace(orders, front=front), place) as pod:
        await pod.ready()
        clients = await pods.streams(pod, 4, 100)
        active = (await pod.status())["traffic"]["active"]
        pod.process.send_signal(signal.SIGTERM)
        ends = [await client for client in clients]
        status, _ = await pod.end()
        return {"active": active, "ends": ends, "exit": status, "message": pod.last_words}


def tell(story: str, folder: str) -> None:
    """Run one of the two stories, and print what it saw."""
    with tempfile.TemporaryDirectory() as scratch:
        seen = {"attack": attack, "counted": counted}[story](folder, Path(scratch) / "pod")
        sys.stdout.write(json.dumps(asyncio.run(seen)) + os.linesep)


if __name__ == "__main__":
    if sys.argv[1] == "strangers":
        be_strangers(*map(int, sys.argv[2:]))
    else:
        tell(*sys.argv[1:])
