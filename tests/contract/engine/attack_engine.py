"""A real vLLM behind the front, attacked: run inside the CPU image, prints what it saw as JSON."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.contract.engine import vllm_pod as pods

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
    async with pods.running(pods.plan(folder, drain=DRAIN), place) as pod:
        await pod.ready()
        passed = {}
        for target in TARGETS:
            for method in METHODS:
                status = await asked(method, target)
                if status not in {400, 404}:
                    passed[f"{method} {target}"] = status
        crowd = [await asyncio.open_connection("127.0.0.1", pods.PORT) for _ in range(300)]
        for _, writer in crowd[::2]:
            writer.write(b"POST /v1/completions HTTP/1.1\r\nA: ")
        clients = await pods.streams(pod, 4, 300)
        pod.process.send_signal(signal.SIGTERM)
        ends = [await client for client in clients]
        status, _ = await pod.end()
        for _, writer in crowd:
            writer.close()
        return {"passed": passed, "ends": ends, "exit": status, "message": pod.last_words}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = asyncio.run(attack(sys.argv[1], Path(scratch) / "pod"))
    sys.stdout.write(json.dumps(found) + os.linesep)
