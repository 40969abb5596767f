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
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn

_ORPHAN = "import time; print('orphan', flush=True); time.sleep(600)"


def compact(document: Any) -> bytes:
    """JSON as vLLM writes it."""
    return json.dumps(document, separators=(",", ":")).encode()


@dataclasses.dataclass(slots=True)
class Call:
    """One HTTP request in ASGI's terms."""

    scope: Any
    receive: Any
    send: Any

    @property
    def route(self) -> tuple[str, str]:
        return self.scope["method"], self.scope["path"]

    async def json(self) -> Any:
        body, more = b"", True
        while more:
            message = await self.receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return json.loads(body)

    async def gone(self) -> None:
        """Wait until the client is gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def start(self, kind: str, *, status: int = 200) -> None:
        headers = [(b"content-type", kind.encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes, *, more: bool = True) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def answer(self, document: Any, *, status: int = 200) -> None:
        await self.start("application/json", status=status)
        await self.write(compact(document), more=False)


class Server(uvicorn.Server):
    """vLLM's server; signals are its caller's, as in vLLM."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclasses.dataclass(slots=True)
class Rank:
    """One engine core behind the server, and what it tells of itself: nothing new while it hangs,
    since vLLM's core tells with each of its steps (v1/core/sched/scheduler.py, make_stats)."""

    running: int = 0
    requests: int = 0
    generated: int = 0
    told: dict[str, tuple[str, float]] | None = None
    released: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def values(self) -> dict[str, tuple[str, float]]:
        return self.told or {
            "vllm:num_requests_running": ("gauge", self.running),
            "vllm:num_requests_waiting": ("gauge", 0),
            "vllm:kv_cache_usage_perc": ("gauge", self.running / 100),
            "vllm:prompt_tokens_total": ("counter", self.requests),
            "vllm:generation_tokens_total": ("counter", self.generated),
        }

    def hang(self) -> None:
        self.told = self.values()
        self.released.clear()

    def go_on(self) -> None:
        self.told = None
        self.released.set()


@dataclasses.dataclass(slots=True)
class Engine:
    """What the stand-in is doing."""

    arguments: argparse.Namespace
    ranks: list[Rank]
    loaded: bool = False
    stopping: bool = False
    running: int = 0
    requests: int = 0
    listed: int = 0
    last: Any = None
    eaten: list[bytearray] = dataclasses.field(default_factory=list)
    idle: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    stopped: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def tokens(self, count: int, rank: Rank) -> AsyncIterator[str]:
        """Up to `count` tokens at the planned pace; fewer when the engine stops for good."""
        for number in range(count):
            await asyncio.sleep(self.arguments.seconds_per_token)
            if rank.told is not None:
                await rank.released.wait()
            if self.stopped.is_set():
                return
            rank.generated += 1
            yield f"t{number} "

    @contextlib.contextmanager
    def request(self) -> Iterator[Rank]:
        """Count a request in and out; the ranks take turns."""
        rank = self.ranks[self.requests % len(self.ranks)]
        self.running += 1
        self.requests += 1
        rank.running += 1
        rank.requests += 1
        self.idle.clear()
        try:
            yield rank
        finally:
            self.running -= 1
            rank.running -= 1
            if not self.running:
                self.idle.set()


async def complete(engine: Engine, call: Call, *, chat: bool) -> None:
    """POST /v1/completions and /v1/chat/completions."""
    body = engine.last = await call.json()
    if not engine.loaded:
        return await call.answer({"error": {"message": "still loading"}}, status=503)
    if engine.stopping:
        message = "cannot schedule new futures after shutdown"
        return await call.answer({"error": {"message": message}}, status=500)
    if body.get("model") != engine.arguments.served_model_name:
        message = f"The model `{body.get('model')}` does not exist."
        return await call.answer({"error": {"message": message}}, status=404)
    count = int(body.get("max_tokens", 16))
    with engine.request() as rank:
        if body.get("stream"):
            return await stream(engine, call, rank, count=count, chat=chat)
        texts = [text async for text in engine.tokens(count, rank)]
    finish = "length" if len(texts) == count else "abort"
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if chat:
        choice["message"] = {"role": "assistant", "content": "".join(texts)}
    else:
        choice["text"] = "".join(texts)
    usage = {"prompt_tokens": 1, "completion_tokens": len(texts)}
    return await call.answer({"object": "completion", "choices": [choice], "usage": usage})


async def stream(engine: Engine, call: Call, rank: Rank, *, count: int, chat: bool) -> None:
    """The same as server-sent events; a client that goes has its request aborted."""
    gone = asyncio.ensure_future(call.gone())

    async def event(text: str, finish: str | None) -> None:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        choice |= {"delta": {"content": text}} if chat else {"text": text}
        await call.write(b"data: " + compact({"choices": [choice]}) + b"\n\n")

    try:
        await call.start("text/event-stream; charset=utf-8")
        sent = 0
        async for text in engine.tokens(count, rank):
            sent += 1
            await event(text, None)
            if gone.done():
                return
        await event("", "length" if sent == count else "abort")
        await call.write(b"data: [DONE]\n\n", more=False)
    finally:
        gone.cancel()


def metrics(engine: Engine) -> str:
    """The families that a supervisor looks at, in vLLM's names and labels."""
    model = engine.arguments.served_model_name
    lines = []
    for number, rank in enumerate(engine.ranks):
        labels = f'{{engine="{number}",model_name="{model}"}}'
        for name, (kind, value) in rank.values().items():
            lines += [f"# TYPE {name.removesuffix('_total')} {kind}"] if not number else []
            lines += [f"{name}{labels} {value}"]
    lines += ["# TYPE http_requests counter"]
    for handler, method, count in (
        ("/v1/completions", "POST", engine.requests),
        ("/v1/models", "GET", engine.listed),
    ):
        labels = f'{{handler="{handler}",method="{method}",status="2xx"}}'
        lines += [f"http_requests_total{labels} {float(count)}"] if count else []
    return "\n".join(lines) + "\n"


async def fault(engine: Engine, call: Call) -> None:
    """POST /fault: break or mend the engine while it runs."""
    order = await call.json()
    match order:
        case {"wedged": bool(wedged)}:
            number = order.get("rank")
            for rank in engine.ranks if number is None else [engine.ranks[number]]:
                if wedged:
                    rank.hang()
                else:
                    rank.go_on()
        case {"eat": int(size)}:
            engine.eaten.append(bytearray(os.urandom(1 << 20) * (size >> 20)))
        case {"signal": str(name)}:
            os.kill(os.getpid(), signal.Signals[name])
        case {"exit": int(status), "says": str(says)}:
            print(says, file=sys.stderr, flush=True)
            os._exit(status)
        case _:
            return await call.answer({}, status=400)
    return await call.answer({})


async def served(engine: Engine, call: Call) -> None:
    """vLLM's routes: some that clients use, and one that nobody should reach."""
    match call.route:
        case ("POST", "/v1/chat/completions"):
            await complete(engine, call, chat=True)
        case ("POST", "/v1/completions"):
            await complete(engine, call, chat=False)
        case ("GET", "/v1/models"):
            engine.listed += 1
            name = engine.arguments.served_model_name
            await call.answer({"object": "list", "data": [{"id": name, "object": "model"}]})
        case ("GET", "/health"):
            await call.answer({})
        case ("POST", "/tokenize"):
            await call.answer({"tokens": [1]})
        case ("GET", "/metrics"):
            await call.start("text/plain")
            await call.write(metrics(engine).encode(), more=False)
        case _:
            await call.answer({"detail": "Not Found"}, status=404)


def application(engine: Engine) -> Any:
    """The HTTP face: vLLM's routes below the middlewares, and two of our own for tests above."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await served(engine, Call(scope, receive, send))

    below: Any = app
    for name in engine.arguments.middleware:
        # As vLLM 0.33 does it (entrypoints/serve/middleware/register.py:65-69).
        module, _, attribute = name.rpartition(".")
        below = getattr(importlib.import_module(module), attribute)(below)

    async def above(scope: Any, receive: Any, send: Any) -> None:
        call = Call(scope, receive, send)
        match call.route:
            case ("GET", "/seen"):
                seen = {"requests": engine.requests, "argv": sys.argv, "last": engine.last}
                await call.answer(seen | {"environment": dict(os.environ)})
            case ("POST", "/fault"):
                await fault(engine, call)
            case _:
                await below(scope, receive, send)

    return above


async def shut_down(engine: Engine) -> None:
    """vLLM's SIGTERM: abort at once without a timeout, else drain up to it."""
    engine.stopping = True
    if engine.running and engine.arguments.shutdown_timeout:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(engine.arguments.shutdown_timeout):
                await engine.idle.wait()
    engine.stopped.set()
    for rank in engine.ranks:
        rank.released.set()


async def serve(arguments: argparse.Namespace) -> int:
    """Load, listen, serve, stop."""
    engine = Engine(arguments, [Rank() for _ in range(arguments.ranks)])
    loop = asyncio.get_running_loop()
    pending: list[asyncio.Task[None]] = []
    if arguments.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(
            signal.SIGTERM, lambda: pending.append(loop.create_task(shut_down(engine)))
        )
    config = uvicorn.Config(
        application(engine),
        host="127.0.0.1",
        port=arguments.port,
        lifespan="off",
        log_level="warning",
        timeout_graceful_shutdown=5,
    )
    server = Server(config)
    serving: asyncio.Task[None] | None = None
    if arguments.health_while_loading:
        serving = asyncio.create_task(server.serve())
    loading = asyncio.create_task(engine.stopped.wait())
    await asyncio.wait([loading], timeout=arguments.load_seconds)
    if arguments.exit_while_loading is not None:
        print(arguments.says, file=sys.stderr, flush=True)
        return int(arguments.exit_while_loading)
    engine.loaded = True
    if arguments.wedged:
        for rank in engine.ranks:
            rank.hang()
    if serving is None and not engine.stopped.is_set():
        serving = asyncio.create_task(server.serve())
    await engine.stopped.wait()
    server.should_exit = True
    if serving is not None:
        await serving
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
    parser.add_argument("--middleware", action="append", default=[])
    parser.add_argument("--scheduling-policy", help="only taken")
    parser.add_argument("--ranks", type=int, default=1, help="engine cores behind the server")
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
