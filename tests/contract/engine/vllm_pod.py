"""A pod with a real vLLM inside the CPU image: started, watched, broken.

Runs with the Python of the image: standard library, aiohttp and the runtime only.
"""

import asyncio
import contextlib
import dataclasses
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from tests.support.engine.plans import ON_CPU, launch_plan
from tests.support.engine.pod import family_of, reading
from tests.support.engine.sse import Completion
from tests.support.ports import free_ports

from kindling_runtime import contract

RUNTIME: Final = "import sys; from kindling_runtime.cli import main; sys.exit(main())"
# Containers of these tests share the machine's network.
PORT, RUNTIME_PORT = free_ports(2)
ENGINE, RUNTIME_URL = f"http://127.0.0.1:{PORT}", f"http://127.0.0.1:{RUNTIME_PORT}"
START_SECONDS: Final = 600
LOOK_SECONDS: Final = 0.1
DRAIN: Final = contract.Drain(endpoint_seconds=20, stream_seconds=240, grace_seconds=60)


def plan(
    folder: str,
    *,
    probe: contract.Probe | None = None,
    drain: contract.Drain = DRAIN,
    env: Mapping[str, str] | None = None,
    ports: tuple[int, int] = (PORT, RUNTIME_PORT),
    arguments: Sequence[str] = (),
) -> contract.LaunchPlan:
    """As the operator writes it for the model in `folder` on CPU."""
    port, runtime_port = ports
    return launch_plan(
        folder,
        argv=(
            *(shutil.which("vllm") or str(Path(sys.executable).with_name("vllm")), "serve"),
            *(folder, "--served-model-name=tiny", "--host=127.0.0.1", f"--port={port}"),
            *("--max-model-len=2048", "--enforce-eager", *arguments, contract.FRONT_ARGUMENT),
            f"--shutdown-timeout={drain.stream_seconds}",
        ),
        env={**ON_CPU, **(env or {})},
        port=port,
        runtime_port=runtime_port,
        probe=probe or contract.Probe(startup_seconds=START_SECONDS),
        drain=drain,
        front=contract.Front(),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """What a kubelet and a naive load balancer see at one moment; None where nobody answers."""

    at: float
    ready: bool | None
    health: bool | None


@dataclasses.dataclass(slots=True)
class Pod:
    """A running `kindling-runtime serve` over vLLM."""

    process: asyncio.subprocess.Process
    place: Path
    session: aiohttp.ClientSession
    looks: list[Look] = dataclasses.field(default_factory=list)
    ended: float | None = None

    @property
    def last_words(self) -> str:
        """The termination message."""
        return (self.place / "log").read_text()

    async def status(self) -> Any:
        """The status document; None where nobody answers."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self.session.get(RUNTIME_URL + contract.STATUS_PATH) as response:
                return await response.json()
        return None

    async def ready(self) -> float:
        """Wait for the first token, seconds from now; raises RuntimeError where none will come."""
        begun = time.monotonic()
        await self.until(lambda status: bool(status["ready"]))
        return time.monotonic() - begun

    async def until(self, holds: Callable[[Any], bool]) -> Any:
        """Wait until the status document is as wanted; raises RuntimeError after the end."""
        while self.process.returncode is None:
            status = await self.status()
            if status is not None and holds(status):
                return status
            await asyncio.sleep(LOOK_SECONDS)
        raise RuntimeError(f"the pod ended with {self.process.returncode}: {self.last_words}")

    async def has_started(self, name: str) -> dict[str, int]:
        """Wait until vLLM has a process of this name; all of them."""
        while self.process.returncode is None:
            found = engine_processes(self)
            if name in found:
                return found
            await asyncio.sleep(LOOK_SECONDS)
        raise RuntimeError(f"the pod ended with {self.process.returncode}: {self.last_words}")

    async def metric(self, name: str) -> float:
        """A metric of the runtime that has no labels."""
        async with self.session.get(RUNTIME_URL + contract.METRICS_PATH) as response:
            return reading(await response.text(), name)

    def unready_after(self, moment: float) -> float | None:
        """Seconds until readiness was seen lost, at the latest with the end; else None."""
        lost = (look.at for look in self.looks if look.at >= moment and not look.ready)
        first = next(lost, self.ended)
        return None if first is None else first - moment

    async def end(self) -> tuple[int, float]:
        """Wait for the end of the container: its status, and when it was."""
        status = await self.process.wait()
        self.ended = self.ended or time.monotonic()
        return status, self.ended

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look at the pod all the time while the context lasts."""
        task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            task.cancel()

    async def _look(self) -> None:
        while True:
            ready = await self._answers(RUNTIME_URL + contract.READY_PATH)
            health = await self._answers(f"{ENGINE}/health")
            self.looks.append(Look(time.monotonic(), ready, health))
            await asyncio.sleep(LOOK_SECONDS)

    async def _answers(self, url: str) -> bool | None:
        try:
            async with self.session.get(url, timeout=aiohttp.ClientTimeout(total=1)) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return None


@contextlib.asynccontextmanager
async def running(orders: contract.LaunchPlan, place: Path) -> AsyncIterator[Pod]:
    """A pod with its files in the new folder `place`; nothing of it is left at the end."""
    _prepare(orders, place)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUNTIME, "serve", "--plan", str(place / "plan.json")),
        *("--termination-log", str(place / "log")),
        stdout=sys.stderr,
    )
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            yield Pod(process, place, session)
        finally:
            family = tuple(family_of(process.pid))
            if process.returncode is None:
                process.kill()
                await process.wait()
            for pid in family:
                tell(pid, signal.SIGKILL)


def _prepare(orders: contract.LaunchPlan, place: Path) -> None:
    place.mkdir()
    (place / "plan.json").write_bytes(contract.encode(orders))
    (place / "log").touch()


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
    seen = Completion()
    with contextlib.suppress(aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
        async with session.post(f"{ENGINE}/v1/completions", json=body) as response:
            async for line in response.content:
                if seen.hear(line):
                    begun.set()
    return [seen.finish, seen.usage, seen.done]


async def streams(pod: Pod, count: int, tokens: int) -> list[asyncio.Task[Any]]:
    """So many streams, each of which has had a token."""
    begun = [asyncio.Event() for _ in range(count)]
    clients = [asyncio.create_task(stream(pod.session, tokens, each)) for each in begun]
    await asyncio.gather(*(each.wait() for each in begun))
    return clients


def engine_processes(pod: Pod) -> dict[str, int]:
    """What vLLM started, by what it calls itself: the server first."""
    found: dict[str, int] = {}
    for pid in family_of(pod.process.pid):
        with contextlib.suppress(OSError):
            name = _name(Path(f"/proc/{pid}/cmdline").read_text())
            found.setdefault(name, pid)
    return found


def _name(command: str) -> str:
    for sign, name in (
        ("resource_tracker", "resource tracker"),
        ("EngineCore", "engine core"),
        ("Worker", "worker"),
        ("vllm", "server"),
    ):
        if sign in command:
            return name
    return command.replace("\0", " ").strip()


def tell(pid: int, number: int) -> None:
    """A signal, to who may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
