"""A stand-in for `vllm serve`: the same HTTP, paced tokens, and faults on order.

It is a real process with real sockets and signals, so that what is tested against it is the
runtime itself; only the model is missing. What it does on SIGTERM and what it answers while it
drains is what vLLM 0.32 was seen to do (docs/runtime.md).

Run: python standin.py serve MODEL --port 8000 --served-model-name tiny [switches]
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

_ORPHAN = "import time; print('orphan', flush=True); time.sleep(600)"


@dataclasses.dataclass(slots=True)
class Engine:
    """What the stand-in is doing."""

    arguments: argparse.Namespace
    wedged: bool = False
    loaded: bool = False
    stopping: bool = False
    running: int = 0
    requests: int = 0
    generated: int = 0
    listed: int = 0
    idle: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    released: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    stopped: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def tokens(self, count: int) -> AsyncIterator[str]:
        """Up to `count` tokens at the planned pace; fewer when the engine stops for good."""
        for number in range(count):
            await asyncio.sleep(self.arguments.seconds_per_token)
            if self.wedged:
                await self.released.wait()
            if self.stopped.is_set():
                return
            self.generated += 1
            yield f"t{number} "

    @contextlib.contextmanager
    def request(self) -> Any:
        """Count a request in and out."""
        self.running += 1
        self.requests += 1
        self.idle.clear()
        try:
            yield
        finally:
            self.running -= 1
            if not self.running:
                self.idle.set()


async def complete(engine: Engine, request: web.Request, *, chat: bool) -> web.StreamResponse:
    """POST /v1/completions and /v1/chat/completions."""
    body = await request.json()
    if not engine.loaded:
        return web.json_response({"error": {"message": "still loading"}}, status=503)
    if engine.stopping:
        message = "cannot schedule new futures after shutdown"
        return web.json_response({"error": {"message": message}}, status=500)
    if body.get("model") != engine.arguments.served_model_name:
        message = f"The model `{body.get('model')}` does not exist."
        return web.json_response({"error": {"message": message}}, status=404)
    count = int(body.get("max_tokens", 16))
    with engine.request():
        if body.get("stream"):
            return await stream(engine, request, count=count, chat=chat)
        texts = [text async for text in engine.tokens(count)]
    finish = "length" if len(texts) == count else "abort"
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if chat:
        choice["message"] = {"role": "assistant", "content": "".join(texts)}
    else:
        choice["text"] = "".join(texts)
    usage = {"prompt_tokens": 1, "completion_tokens": len(texts)}
    return web.json_response({"object": "completion", "choices": [choice], "usage": usage})


async def stream(
    engine: Engine, request: web.Request, *, count: int, chat: bool
) -> web.StreamResponse:
    """The same as server-sent events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)

    async def send(text: str, finish: str | None) -> None:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        choice |= {"delta": {"content": text}} if chat else {"text": text}
        await response.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())

    sent = 0
    async for text in engine.tokens(count):
        sent += 1
        await send(text, None)
    await send("", "length" if sent == count else "abort")
    await response.write(b"data: [DONE]\n\n")
    return response


def metrics(engine: Engine) -> str:
    """The families that a supervisor looks at, in vLLM's names and labels."""
    labels = f'{{engine="0",model_name="{engine.arguments.served_model_name}"}}'
    values = {
        "vllm:num_requests_running": ("gauge", engine.running),
        "vllm:kv_cache_usage_perc": ("gauge", engine.running / 100),
        "vllm:prompt_tokens_total": ("counter", engine.requests),
        "vllm:generation_tokens_total": ("counter", engine.generated),
    }
    lines = []
    for name, (kind, value) in values.items():
        lines += [f"# TYPE {name.removesuffix('_total')} {kind}", f"{name}{labels} {value}"]
    lines += ["# TYPE http_requests counter"]
    for handler, method, count in (
        ("/v1/completions", "POST", engine.requests),
        ("/v1/models", "GET", engine.listed),
    ):
        labels = f'{{handler="{handler}",method="{method}",status="2xx"}}'
        lines += [f"http_requests_total{labels} {float(count)}"] if count else []
    return "\n".join(lines) + "\n"


async def fault(engine: Engine, request: web.Request) -> web.Response:
    """POST /fault: break or mend the engine while it runs."""
    order = await request.json()
    match order:
        case {"wedged": bool(wedged)}:
            engine.wedged = wedged
            if wedged:
                engine.released.clear()
            else:
                engine.released.set()
        case {"signal": str(name)}:
            os.kill(os.getpid(), signal.Signals[name])
        case {"exit": int(status), "says": str(says)}:
            print(says, file=sys.stderr, flush=True)
            os._exit(status)
        case _:
            return web.Response(status=400)
    return web.Response()


def application(engine: Engine) -> web.Application:
    """The HTTP face: vLLM's routes, and two of our own for tests."""

    async def chat(request: web.Request) -> web.StreamResponse:
        return await complete(engine, request, chat=True)

    async def completions(request: web.Request) -> web.StreamResponse:
        return await complete(engine, request, chat=False)

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def models(_: web.Request) -> web.Response:
        engine.listed += 1
        name = engine.arguments.served_model_name
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"}]})

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(text=metrics(engine))

    async def seen(_: web.Request) -> web.Response:
        return web.json_response(
            {"requests": engine.requests, "argv": sys.argv, "environment": dict(os.environ)}
        )

    async def break_or_mend(request: web.Request) -> web.Response:
        return await fault(engine, request)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/completions", completions)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", show_metrics)
    app.router.add_get("/seen", seen)
    app.router.add_post("/fault", break_or_mend)
    return app


async def shut_down(engine: Engine) -> None:
    """vLLM's SIGTERM: abort at once without a timeout, else drain up to it."""
    engine.stopping = True
    if engine.running and engine.arguments.shutdown_timeout:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(engine.arguments.shutdown_timeout):
                await engine.idle.wait()
    engine.stopped.set()
    engine.released.set()


async def serve(arguments: argparse.Namespace) -> int:
    """Load, listen, serve, stop."""
    engine = Engine(arguments)
    loop = asyncio.get_running_loop()
    pending: list[asyncio.Task[None]] = []
    if arguments.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(
            signal.SIGTERM, lambda: pending.append(loop.create_task(shut_down(engine)))
        )
    runner = web.AppRunner(application(engine), handle_signals=False, shutdown_timeout=5)
    await runner.setup()
    if arguments.health_while_loading:
        await web.TCPSite(runner, "127.0.0.1", arguments.port).start()
    loading = asyncio.create_task(engine.stopped.wait())
    await asyncio.wait([loading], timeout=arguments.load_seconds)
    if arguments.exit_while_loading is not None:
        print(arguments.says, file=sys.stderr, flush=True)
        return int(arguments.exit_while_loading)
    engine.loaded = True
    engine.wedged = arguments.wedged
    if not arguments.health_while_loading and not engine.stopped.is_set():
        await web.TCPSite(runner, "127.0.0.1", arguments.port).start()
    await engine.stopped.wait()
    await runner.cleanup()
    return 0


def parse() -> argparse.Namespace:
    """The flags of `vllm serve` that a plan carries, and the switches for faults."""
    parser = argparse.ArgumentParser(prog="standin")
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--shutdown-timeout", type=float, default=0)
    parser.add_argument("--master-addr", help="of a group; like the two below, only taken")
    parser.add_argument("--node-rank", type=int)
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--load-seconds", type=float, default=0)
    parser.add_argument("--seconds-per-token", type=float, default=0)
    parser.add_argument("--health-while-loading", action="store_true")
    parser.add_argument("--wedged", action="store_true", help="accept, answer nothing")
    parser.add_argument("--exit-while-loading", type=int)
    parser.add_argument("--says", default="", help="last line before the exit")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--orphan", action="store_true", help="leave a grandchild without parent")
    parser.add_argument("--chatter", action="store_true", help="print without end")
    return parser.parse_args()


def chatter() -> None:
    """Print until nobody reads any more, and then wait for somebody who does."""
    while True:
        print("standin: " + "x" * 1000)


def leave_orphan() -> None:
    """Start a process whose parent is gone at once, as vLLM's do when their parent dies."""
    parent = f"import subprocess,sys; subprocess.Popen([sys.executable, '-c', {_ORPHAN!r}])"
    subprocess.run([sys.executable, "-c", parent], check=True, timeout=30)


if __name__ == "__main__":
    options = parse()
    print(f"standin: process {os.getpid()}", flush=True)
    if options.orphan:
        leave_orphan()
    if options.chatter:
        threading.Thread(target=chatter, daemon=True).start()
    sys.exit(asyncio.run(serve(options)))
