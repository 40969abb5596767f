"""A serving pod without Kubernetes: the real `kindling-runtime serve` over the stand-in engine."""

import asyncio
import contextlib
import dataclasses
import functools
import json
import operator
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from tests.support.engine.plans import launch_plan
from tests.support.ports import free_ports

from kindling_runtime import contract
from kindling_runtime.contract import Drain, Front, LaunchPlan, Phase, Probe, Status

RUNTIME = Path(sys.executable).with_name("kindling-runtime")
STANDIN = Path(__file__).with_name("standin.py")

# Real work takes milliseconds; the rest is room for a busy machine.
PATIENCE = 45.0
ROOM = 30.0
"""What a busy machine may add to a bound."""

PATIENT = Probe(startup_seconds=45, token_seconds=20, interval_seconds=1)
# For engines that are meant to be given up.
QUICK = Probe(startup_seconds=45, token_seconds=1, interval_seconds=1, wedged_seconds=3)

# A process namespace of its own, as a container has. Without root's power to make one, the runtime
# adopts orphans as a subreaper, which is the same to it.
PROCESS_1 = (
    ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child") if os.getuid() == 0 else ()
)


def weights(folder: Path) -> Path:
    """A weights folder that passes preflight."""
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    # A file of the format, without any tensor.
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def plan_for(
    model: Path,
    *,
    switches: Sequence[str] = (),
    probe: Probe = PATIENT,
    drain: Drain | None = None,
    env: dict[str, str] | None = None,
    front: Front | None = None,
) -> LaunchPlan:
    """A plan for the stand-in with `model`, on free ports; with `front`, behind our middleware."""
    engine_port, runtime_port = free_ports(2)
    leave = drain or Drain(endpoint_seconds=1, stream_seconds=10, grace_seconds=2)
    argv = (
        *(sys.executable, str(STANDIN), "serve", str(model)),
        *("--port", str(engine_port), "--served-model-name", "tiny"),
        *("--shutdown-timeout", str(leave.stream_seconds), *switches),
        *((contract.FRONT_ARGUMENT,) if front is not None else ()),
    )
    return launch_plan(
        model,
        argv=argv,
        env=env,
        port=engine_port,
        runtime_port=runtime_port,
        probe=probe,
        drain=leave,
        front=front,
    )


class RefusedError(Exception):
    """503 with Retry-After: how long to wait before the request is sent again."""

    def __init__(self, retry_seconds: int) -> None:
        super().__init__(f"refused, to be sent again after {retry_seconds} s")
        self.retry_seconds = retry_seconds


@dataclasses.dataclass(slots=True)
class Container:
    """A running command of kindling-runtime: what it printed, its last words and its end."""

    plan: LaunchPlan
    folder: Path
    process: asyncio.subprocess.Process

    @property
    def message(self) -> str:
        """The sentence of the termination message."""
        return contract.read_last_words(self.last_words)[1]

    @property
    def reason(self) -> contract.Reason | None:
        """The reason in the termination message."""
        return contract.read_last_words(self.last_words)[0]

    @property
    def last_words(self) -> str:
        """The termination message, whole."""
        return (self.folder / "termination-log").read_text()

    @property
    def log(self) -> str:
        """Everything that the container printed so far, both streams."""
        return (self.folder / "log").read_text()

    async def printed(self, text: str) -> None:
        """Wait until the container's log holds `text`."""
        await until(lambda: text in self.log)

    async def exit_status(self) -> int:
        """Wait for the end of the container."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@dataclasses.dataclass(slots=True)
class Pod(Container):
    """A running `kindling-runtime serve`, seen as the kubelet, the operator and a client see it."""

    session: aiohttp.ClientSession
    in_namespace: bool = False

    @property
    def engine(self) -> str:
        """Base URL of the engine's port."""
        return f"http://127.0.0.1:{self.plan.engine.port}"

    @property
    def runtime(self) -> str:
        """Base URL of the runtime's port."""
        return f"http://127.0.0.1:{self.plan.runtime_port}"

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

    async def metric(self, name: str) -> float:
        """A metric of the runtime that has no labels."""
        return reading(await self.metrics(), name)

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

    async def minds_sigterm(self) -> None:
        """Wait until SIGTERM no longer does what it does by default (proc_pid_status(5))."""
        await until(lambda: bool(self._masks() & 1 << (signal.SIGTERM - 1)))

    def _masks(self) -> int:
        status = _read(Path(f"/proc/{self.process.pid}/status")).splitlines()
        masks = [line.split()[1] for line in status if line.startswith(("SigBlk", "SigCgt"))]
        return functools.reduce(operator.or_, (int(mask, 16) for mask in masks), 0)

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
        """Stream a chat completion of `tokens` tokens; returns the events' data.

        Raises RefusedError when the pod says to come again.
        """
        body = {"model": "tiny", "messages": [], "max_tokens": tokens, "stream": True}
        events: list[str] = []
        async with self.session.post(f"{self.engine}/v1/chat/completions", json=body) as response:
            if response.status == 503 and "retry-after" in response.headers:
                raise RefusedError(int(response.headers["retry-after"]))
            assert response.status == 200
            async for line in response.content:
                if line.startswith(b"data: "):
                    events.append(line.removeprefix(b"data: ").decode().strip())
                    if started is not None:
                        started.set()
        return events

    async def streaming(self, tokens: int) -> asyncio.Task[list[str]]:
        """A stream that has had its first token."""
        started = asyncio.Event()
        client = asyncio.create_task(self.stream(tokens, started=started))
        await started.wait()
        return client

    def descendants(self) -> dict[int, str]:
        """Everything that the container runs, by this host's process id: the command line."""
        return {pid: _command(pid) for pid in family_of(self.process.pid)}

    def terminate(self) -> None:
        """SIGTERM to the container's process 1, as the kubelet sends it."""
        for pid, command in {self.process.pid: "", **self.descendants()}.items():
            if not self.in_namespace or f"{RUNTIME} serve" in command:
                os.kill(pid, signal.SIGTERM)
                return


async def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds()`; raises TimeoutError when it does not in time."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if holds():
                return
            await asyncio.sleep(0.005)


def finish_reason(events: Sequence[str]) -> str | None:
    """How a stream ended, which is only known when it ended with [DONE]."""
    assert events[-1] == "[DONE]", events[-3:]
    reason: str | None = json.loads(events[-2])["choices"][0]["finish_reason"]
    return reason


def is_running(pid: int) -> bool:
    """Whether the process exists, were it as a zombie."""
    return Path(f"/proc/{pid}").exists()


def family_of(pid: int) -> Iterator[int]:
    """Everything below a process, parents first."""
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, _read(listing).split()):
            yield child
            yield from family_of(child)


def _command(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()


def resident(pid: int) -> int:
    """Bytes of a process in memory (proc_pid_status(5))."""
    lines = _read(Path(f"/proc/{pid}/status")).splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def reading(metrics: str, name: str) -> float:
    """A metric without labels."""
    return float(next(m.split()[1] for m in metrics.splitlines() if m.startswith(f"{name} ")))


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


@contextlib.asynccontextmanager
async def running(
    plan: LaunchPlan,
    folder: Path,
    *,
    as_process_1: bool = False,
    prefix: Sequence[str] = (),
    env: dict[str, str] | None = None,
    stdout: int | None = None,
) -> AsyncIterator[Pod]:
    """Run the runtime on `plan` with its files in `folder`; nothing of it is left at the end.

    `prefix` comes before its command. Its output goes to `Pod.log`, or the standard one to the file
    descriptor `stdout`.
    """
    prefix = PROCESS_1 if as_process_1 else prefix
    process = await _start(contract.encode(plan), folder, prefix=prefix, env=env, stdout=stdout)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        pod = Pod(plan, folder, process, session, in_namespace=bool(prefix))
        try:
            yield pod
        finally:
            await _put_down(pod)


async def run_to_end(data: bytes, folder: Path, *, prefix: Sequence[str] = ()) -> tuple[int, str]:
    """Run the runtime on a plan that it should refuse: exit status and termination message."""
    process = await _start(data, folder, prefix=prefix)
    async with asyncio.timeout(PATIENCE):
        status = await process.wait()
    return status, (folder / "termination-log").read_text()


async def _start(
    data: bytes,
    folder: Path,
    *,
    prefix: Sequence[str] = (),
    env: dict[str, str] | None = None,
    stdout: int | None = None,
) -> asyncio.subprocess.Process:
    (folder / "plan.json").write_bytes(data)
    (folder / "termination-log").touch()
    (folder / "shm").mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *(*prefix, str(RUNTIME), "serve", "--plan", str(folder / "plan.json")),
            *("--termination-log", str(folder / "termination-log")),
            *("--shared-memory", str(folder / "shm")),
            stdout=log if stdout is None else stdout,
            stderr=log,
            env=os.environ | (env or {}),
        )


async def _put_down(pod: Pod) -> None:
    # By process ids as this host sees them: those in /status may be of another namespace.
    family = pod.descendants()
    if pod.process.returncode is None:
        pod.process.kill()
        await pod.process.wait()
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
