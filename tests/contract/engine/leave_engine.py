"""A pod with a real vLLM is told to leave while streams run; prints what clients saw, as JSON.

Runs with the Python of the CPU image, alone: standard library, aiohttp and the runtime only. The
case is JSON in the first argument: folder of the model, streams, tokens of each.
"""

import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from kindling_runtime import contract

RUNTIME = "import sys; from kindling_runtime.cli import main; sys.exit(main())"
PORT, RUNTIME_PORT = 18800, 18940
BASE, STATUS = f"http://127.0.0.1:{PORT}/v1", f"http://127.0.0.1:{RUNTIME_PORT}/status"
START_SECONDS = 600


def plan(folder: str) -> contract.LaunchPlan:
    """As the operator writes it for this model on CPU."""
    stream_seconds = 240
    return contract.LaunchPlan(
        model=contract.Model(name="custom", served_name="tiny"),
        weights=contract.Weights(uri="file:///tiny", path=folder),
        engine=contract.Engine(
            argv=(
                *(shutil.which("vllm") or str(Path(sys.executable).with_name("vllm")), "serve"),
                *(folder, "--served-model-name=tiny", "--host=127.0.0.1", f"--port={PORT}"),
                *("--max-model-len=2048", "--enforce-eager", contract.FRONT_ARGUMENT),
                f"--shutdown-timeout={stream_seconds}",
            ),
            env={
                "OMP_NUM_THREADS": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_HOST_IP": "127.0.0.1",
                "VLLM_NO_USAGE_STATS": "1",
                "HF_HUB_OFFLINE": "1",
            },
            port=PORT,
        ),
        probe=contract.Probe(startup_seconds=START_SECONDS),
        drain=contract.Drain(endpoint_seconds=20, stream_seconds=stream_seconds, grace_seconds=60),
        runtime_port=RUNTIME_PORT,
        front=contract.Front(),
    )


async def stream(session: aiohttp.ClientSession, tokens: int, begun: asyncio.Event) -> Any:
    """How a stream of `tokens` ended: its finish reason, its tokens, whether its end came."""
    body = {
        "model": "tiny",
        "prompt": "the server",
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    reason, counted, done = None, 0, False
    async with session.post(f"{BASE}/completions", json=body) as response:
        async for line in response.content:
            text = line.decode().removeprefix("data: ").strip()
            done = done or text == "[DONE]"
            if not text.startswith("{"):
                continue
            begun.set()
            event = json.loads(text)
            counted = (event.get("usage") or {}).get("completion_tokens", counted)
            for choice in event.get("choices", ()):
                reason = choice["finish_reason"] or reason
    return [reason, counted, done]


async def newcomers(seen: list[Any]) -> None:
    """A new client four times a second: status and Retry-After, None once nobody listens."""
    timeout = aiohttp.ClientTimeout(total=120)
    while True:
        body = {"model": "tiny", "prompt": "a", "max_tokens": 1}
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            try:
                async with session.post(f"{BASE}/completions", json=body) as response:
                    seen.append([response.status, response.headers.get("Retry-After")])
            except aiohttp.ClientError:
                seen.append(None)
        await asyncio.sleep(0.25)


async def leave(folder: str, streams: int, tokens: int, place: Path) -> dict[str, Any]:
    """One pod from its start to its end."""
    (place / "plan.json").write_bytes(contract.encode(plan(folder)))
    (place / "log").touch()
    (place / "shm").mkdir()
    pod = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUNTIME, "serve", "--plan", str(place / "plan.json")),
        *("--termination-log", str(place / "log"), "--shared-memory", str(place / "shm")),
        stdout=sys.stderr,
    )
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:
        await ready(session, pod)
        denied = {}
        for path in ("/tokenize", "/invocations", "/scale_elastic_ep", "/sleep", "/docs"):
            async with session.post(f"http://127.0.0.1:{PORT}{path}", json={}) as response:
                denied[path] = response.status
        begun = [asyncio.Event() for _ in range(streams)]
        clients = [asyncio.create_task(stream(session, tokens, each)) for each in begun]
        await asyncio.gather(*(each.wait() for each in begun))
        seen: list[Any] = []
        pod.send_signal(signal.SIGTERM)
        told = time.monotonic()
        asking = asyncio.create_task(newcomers(seen))
        ends = await asyncio.gather(*clients)
        finished = time.monotonic() - told
        status = await pod.wait()
        asking.cancel()
    return {
        "denied": denied,
        "ends": ends,
        "newcomers": seen,
        "finished_seconds": finished,
        "exit_seconds": time.monotonic() - told,
        "exit_status": status,
        "message": (place / "log").read_text(),
    }


async def ready(session: aiohttp.ClientSession, pod: asyncio.subprocess.Process) -> None:
    """Wait for the first token; raises RuntimeError where none will come."""
    while pod.returncode is None:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(STATUS) as response:
                if (await response.json())["ready"]:
                    return
        await asyncio.sleep(0.5)
    raise RuntimeError("the pod ended before its first token")


def main() -> None:
    """Print the outcome."""
    folder, streams, tokens = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        json.dump(asyncio.run(leave(folder, streams, tokens, Path(place))), sys.stdout)


if __name__ == "__main__":
    main()
