"""A serving pod without Kubernetes: the real `kindling-runtime serve` over the stand-in engine."""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kindling_runtime import contract
from kindling_runtime.contract import Drain, LaunchPlan, Phase, Probe, Status

RUNTIME = Path(sys.executable).with_name("kindling-runtime")
STANDIN = Path(__file__).with_name("standin.py")

# Real work takes milliseconds; the rest is room for a busy machine.
PATIENCE = 30.0

QUICK = Probe(
    startup_seconds=20, token_seconds=1, interval_seconds=1, unready_failures=2, wedged_seconds=3
)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for taken in sockets:
            taken.bind(("127.0.0.1", 0))
        return [taken.getsockname()[1] for taken in sockets]


def weights(folder: Path) -> Path:
    """A weights folder that passes preflight."""
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    (folder / "model.safetensors").write_bytes(b"\0" * 16)
    return folder


def plan_for(
    model: Path,
    *,
    switches: Sequence[str] = (),
    probe: Probe = QUICK,
    drain: Drain | None = None,
    env: dict[str, str] | None = None,
) -> LaunchPlan:
    """A plan for the stand-in with `model`, on free ports."""
    engine_port, runtime_port = free_ports(2)
    leave = drain or Drain(endpoint_seconds=1, stream_seconds=10, grace_seconds=2)
    argv = (
        *(sys.executable, str(STANDIN), "serve", str(model)),
        *("--port", str(engine_port), "--served-model-name", "tiny"),
        *("--shutdown-timeout", str(leave.stream_seconds), *switches),
    )
    return LaunchPlan(
        model=contract.Model(name="custom", served_name="tiny"),
        weights=contract.Weights(uri="pvc://models/tiny", path=str(model)),
        engine=contract.Engine(argv=argv, env=env or {}, port=engine_port),
        probe=probe,
        drain=leave,
        runtime_port=runtime_port,
    )


@dataclasses.dataclass(slots=True)
class Pod:
    """A running `kindling-runtime serve`, seen as the kubelet, the operator and a client see it."""

    plan: LaunchPlan
    folder: Path
    process: asyncio.subprocess.Process
    session: aiohttp.ClientSession

    @property
    def engine(self) -> str:
        """Base URL of the engine's port."""
        return f"http://127.0.0.1:{self.plan.engine.port}"

    @property
    def runtime(self) -> str:
        """Base URL of the runtime's port."""
        return f"http://127.0.0.1:{self.plan.runtime_port}"

    @property
    def message(self) -> str:
        """The termination message."""
        return (self.folder / "termination-log").read_text()

    @property
    def log(self) -> str:
        """Everything that the container printed so far, both streams."""
        return (self.folder / "log").read_text()

    async def check(self, path: str) -> int | None:
        """Status of a probe, as the kubelet sees it; None when nothing answers."""
        try:
            async with self.session.get(self.runtime + path) as response:
                return response.status
        except aiohttp.ClientError:
            return None

    async def ready(self) -> bool:
        """Whether the readiness probe passes."""
        return await self.check(contract.READY_PATH) == 200

    async def status(self) -> Status:
        """The runtime's status document."""
        async with self.session.get(self.runtime + contract.STATUS_PATH) as response:
            return msgspec.json.decode(await response.read(), type=Status)

    async def metrics(self) -> str:
        """The runtime's metrics."""
        async with self.session.get(self.runtime + contract.METRICS_PATH) as response:
            return await response.text()

    async def reach(self, *phases: Phase) -> Status:
        """Wait until the pod is in one of `phases`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    status = await self.status()
                    if status.phase in phases:
                        return status
                if self.process.returncode is not None:
                    raise AssertionError(f"exited with {self.process.returncode}:\n{self.log}")
                await asyncio.sleep(0.02)

    async def fault(self, **order: Any) -> None:
        """Break or mend the stand-in."""
        with contextlib.suppress(aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            async with self.session.post(f"{self.engine}/fault", json=order) as response:
                assert response.status == 200

    async def seen(self) -> dict[str, Any]:
        """What the stand-in saw: requests, argv, environment."""
        async with self.session.get(f"{self.engine}/seen") as response:
            answer: dict[str, Any] = await response.json()
            return answer

    async def stream(self, tokens: int, *, started: asyncio.Event | None = None) -> list[str]:
        """Stream a chat completion of `tokens` tokens; returns the events' data."""
        body = {"model": "tiny", "messages": [], "max_tokens": tokens, "stream": True}
        events: list[str] = []
        async with self.session.post(f"{self.engine}/v1/chat/completions", json=body) as response:
            assert response.status == 200
            async for line in response.content:
                if line.startswith(b"data: "):
                    events.append(line.removeprefix(b"data: ").decode().strip())
                    if started is not None:
                        started.set()
        return events

    def terminate(self) -> None:
        """SIGTERM, as the kubelet sends it."""
        self.process.send_signal(signal.SIGTERM)

    async def exit_status(self) -> int:
        """Wait for the end of the container."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


def finish_reason(events: Sequence[str]) -> str | None:
    """How a stream ended, which is only known when it ended with [DONE]."""
    assert events[-1] == "[DONE]", events[-3:]
    reason: str | None = json.loads(events[-2])["choices"][0]["finish_reason"]
    return reason


@contextlib.asynccontextmanager
async def running(
    plan: LaunchPlan,
    folder: Path,
    *,
    prefix: Sequence[str] = (),
    env: dict[str, str] | None = None,
) -> AsyncIterator[Pod]:
    """Run the runtime on `plan` with its files in `folder`; nothing of it is left at the end."""
    process = await _start(contract.encode(plan), folder, prefix=prefix, env=env or {})
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        pod = Pod(plan, folder, process, session)
        try:
            yield pod
        finally:
            await _put_down(pod)


async def run_to_end(data: bytes, folder: Path) -> tuple[int, str]:
    """Run the runtime on a plan that it should refuse: exit status and termination message."""
    process = await _start(data, folder, prefix=(), env={})
    async with asyncio.timeout(PATIENCE):
        status = await process.wait()
    return status, (folder / "termination-log").read_text()


async def _start(
    data: bytes, folder: Path, *, prefix: Sequence[str], env: dict[str, str]
) -> asyncio.subprocess.Process:
    (folder / "plan.json").write_bytes(data)
    (folder / "termination-log").touch()
    (folder / "shm").mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *(*prefix, str(RUNTIME), "serve", "--plan", str(folder / "plan.json")),
            *("--termination-log", str(folder / "termination-log")),
            *("--shared-memory", str(folder / "shm")),
            stdout=log,
            stderr=log,
            env=os.environ | env,
        )


async def _put_down(pod: Pod) -> None:
    engine: int | None = None
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        engine = (await pod.status()).engine.pid
    if pod.process.returncode is None:
        pod.process.kill()
        await pod.process.wait()
    if engine is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine, signal.SIGKILL)
