"""An engine that means harm: it generates one token, and from then on answers as it was told to.

Run: python evil.py serve MODEL --port 8000 --harm KIND
"""

import argparse
import asyncio
import contextlib
import gzip
import json
import sys

TOKEN = {"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}}
HARMLESS = (b"", b"")
COUNTERS = "vllm:generation_tokens_total 1.0\n"
NO_NUMBERS = "".join(
    f"{name} NaN\n"
    for name in (
        "vllm:kv_cache_usage_perc",
        'http_requests_total{handler="/v1/models",method="GET"}',
        'vllm:cache_config_info{num_gpu_blocks="' + "9" * 5000 + '"}',
    )
)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer, after which the connection ends."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


def harm_of(kind: str) -> tuple[bytes, bytes]:
    """What it answers to a request for a token, and for its metrics."""
    token = json.dumps(TOKEN).encode()
    counters = answer(COUNTERS.encode())
    redirect = answer(b"", "Location: http://127.0.0.1:1/", status="307 Temporary Redirect")
    zeros = b"0" * (64 << 20) if kind == "bomb" else b""
    bomb = answer(gzip.compress(zeros, 1), "Content-Encoding: gzip")
    none = {"choices": [{"text": "\x1b[31m"}], "usage": {"completion_tokens": 0}}
    return {
        "charset": (
            answer(b"\xff" + token, "Content-Type: application/json; charset=hex"),
            answer(b"\xff", "Content-Type: text/plain; charset=hex"),
        ),
        "nested": (answer(b"[" * 200_000), answer(b'vllm:generation_tokens_total{a="' * 9999)),
        "redirect": (redirect, redirect),
        "bomb": (bomb, bomb),
        "no numbers": (b"", answer(NO_NUMBERS.encode())),
        "empty": (answer(b""), answer(b"")),
        "no token": (answer(json.dumps(none).encode()), counters),
        "terminal": (answer(b"\x1b]0;owned\x07", status="500 No"), answer(b"", status="500 No")),
    }[kind]


async def endless(writer: asyncio.StreamWriter) -> None:
    """A body that never ends, as fast as it is read."""
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        writer.write(b"vllm:generation_tokens_total 1\n" * 4096)
        await writer.drain()


async def serve(arguments: argparse.Namespace) -> None:
    """Listen, be good once, be bad."""
    good, harm = True, HARMLESS if arguments.harm == "endless" else harm_of(arguments.harm)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await answered(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()
        writer.close()

    async def answered(head: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal good
        watched = head.startswith(b"GET /metrics")
        if good:
            good = watched
            text = COUNTERS if watched else json.dumps(TOKEN)
            writer.write(answer(text.encode()))
        elif arguments.harm == "endless":
            await endless(writer)
        else:
            writer.write(harm[watched])
            if not harm[watched]:
                await asyncio.sleep(3600)

    server = await asyncio.start_server(client, "127.0.0.1", arguments.port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("verb")
    parser.add_argument("model")
    parser.add_argument("--port", type=int)
    parser.add_argument("--harm")
    options, _ = parser.parse_known_args()
    sys.exit(asyncio.run(serve(options)))
