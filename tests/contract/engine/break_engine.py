"""Pods with a real vLLM are broken, one life after the other; prints what was seen, as JSON.

Runs in the CPU image. The arguments are the folder of the model, a folder on a full disk, and the
names of the lives; a life that itself fails is told as {"error": ...}. Times are seconds since the
fault.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.contract.engine import vllm_pod as pods
from tests.contract.engine.vllm_pod import Pod
from tests.support.engine.pod import is_running

from kindling_runtime import contract

QUICK: Final = contract.Probe(
    startup_seconds=pods.START_SECONDS, token_seconds=2, interval_seconds=2, wedged_seconds=17
)
SHORT: Final = contract.Drain(endpoint_seconds=5, stream_seconds=60, grace_seconds=5)
LONG: Final = contract.Drain(endpoint_seconds=20, stream_seconds=120, grace_seconds=60)
STREAMS: Final = 3
PAUSE_SECONDS: Final = 4
SLOW_SECONDS: Final = 10
TOKENS: Final = 1500
FEW_TOKENS: Final = 100

Seen = dict[str, Any]


class Lives:
    """What can be done to an engine."""

    def __init__(self, folder: str, full: str, place: Path) -> None:
        self._folder = folder
        self._full = full
        self._place = place

    @asynccontextmanager
    async def _pod(
        self, drain: contract.Drain = SHORT, env: dict[str, str] | None = None
    ) -> AsyncIterator[Pod]:
        orders = pods.plan(self._folder, probe=QUICK, drain=drain, env=env)
        number = len(list(self._place.iterdir()))
        async with pods.running(orders, self._place / str(number)) as pod, pod.watched():
            yield pod

    async def served(self) -> Seen:
        """Slow in many ways, and kept; then the core is stopped for good."""
        # Whatever it compiles or keeps finds no room on its disk.
        env = dict.fromkeys(("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR"), self._full)
        async with self._pod(env=env) as pod:
            seen: Seen = {"ready": await pod.ready()}
            found = pods.engine_processes(pod)
            seen["processes"] = list(found)
            seen["tracker"] = await _without(pod, found["resource tracker"])
            seen["busy"] = await _busy(pod)
            seen["paused"] = await _paused(pod, found)
            seen["slow"] = await _slow(pod, found)
            clients = await pods.streams(pod, 1, TOKENS)
            seen["stopped"] = await _ended_by(pod, found["engine core"], signal.SIGSTOP)
            seen["stopped"]["stream"] = await clients[0]
            return seen

    async def core_killed(self) -> Seen:
        """SIGKILL to the core; then the next pod finds what was left in shared memory."""
        return await self._one("engine core", signal.SIGKILL)

    async def worker_killed(self) -> Seen:
        """SIGKILL to the worker, the core's child."""
        return await self._one("worker", signal.SIGKILL)

    async def server_killed(self) -> Seen:
        """SIGKILL to vLLM's main process: the others are orphans then."""
        return await self._one("server", signal.SIGKILL)

    async def server_stopped(self) -> Seen:
        """SIGSTOP of vLLM's main process."""
        return await self._one("server", signal.SIGSTOP)

    async def _one(self, name: str, number: int) -> Seen:
        async with self._pod() as pod:
            begun = time.monotonic()
            await pod.until(lambda status: status["engine"]["pid"] is not None)
            removed_after = time.monotonic() - begun
            left = await pod.metric("kindling_runtime_leftover_bytes_removed_total")
            await pod.ready()
            family = pods.engine_processes(pod)
            seen = await _ended_by(pod, family[name], number)
        alive = [name for name, pid in family.items() if is_running(pid)]
        return seen | {"removed": left, "removed_after": removed_after, "alive": alive}

    async def told_while_loading(self) -> Seen:
        """SIGTERM once the core exists, before the first token."""
        async with self._pod(LONG) as pod:
            await pod.has_started("engine core")
            return await _ended_by(pod, pod.process.pid, signal.SIGTERM)

    async def told_twice(self) -> Seen:
        """SIGTERM twice while streams run."""
        async with self._pod(LONG) as pod:
            await pod.ready()
            clients = await pods.streams(pod, STREAMS, TOKENS)
            begun = time.monotonic()
            pods.tell(pod.process.pid, signal.SIGTERM)
            await asyncio.sleep(1)
            seen = await _ended_by(pod, pod.process.pid, signal.SIGTERM, begun=begun)
            return seen | {"streams": await asyncio.gather(*clients)}

    async def core_killed_while_leaving(self) -> Seen:
        """SIGTERM with streams, then SIGKILL to the core."""
        async with self._pod(LONG) as pod:
            await pod.ready()
            clients = await pods.streams(pod, STREAMS, TOKENS)
            pods.tell(pod.process.pid, signal.SIGTERM)
            await pod.until(lambda status: status["phase"] == contract.Phase.DRAINING)
            core = pods.engine_processes(pod)["engine core"]
            seen = await _ended_by(pod, core, signal.SIGKILL)
            return seen | {"streams": await asyncio.gather(*clients)}

    async def killed_while_loading(self) -> Seen:
        """SIGKILL to the core before the first token."""
        async with self._pod() as pod:
            core = (await pod.has_started("worker"))["engine core"]
            return await _ended_by(pod, core, signal.SIGKILL)

    async def out_of_memory(self) -> Seen:
        """A start in a container whose memory is too small for the engine."""
        async with self._pod() as pod, asyncio.timeout(pods.START_SECONDS):
            return await _end(pod, time.monotonic())

    async def no_shared_memory(self) -> Seen:
        """A start while /dev/shm is full."""
        async with self._pod() as pod, asyncio.timeout(pods.START_SECONDS):
            return await _end(pod, time.monotonic())


async def _without(pod: Pod, pid: int) -> Seen:
    """A process that nobody needs is killed: seconds until the next client was served."""
    begun = time.monotonic()
    pods.tell(pid, signal.SIGKILL)
    [client] = await pods.streams(pod, 1, 10)
    return {"stream": await client, "seconds": time.monotonic() - begun, **await _now(pod)}


async def _busy(pod: Pod) -> Seen:
    """Clients are served for some looks: canaries meanwhile, and looks."""
    clients = await pods.streams(pod, STREAMS, TOKENS)
    await asyncio.sleep(QUICK.interval_seconds)  # a look that began before the clients came
    before, begun = await pod.metric("kindling_runtime_canaries_total"), time.monotonic()
    ends: list[Any] = []
    while time.monotonic() < begun + 3 * QUICK.interval_seconds:
        ends += await asyncio.gather(*clients)
        clients = await pods.streams(pod, STREAMS, TOKENS)
    after, seconds = await pod.metric("kindling_runtime_canaries_total"), time.monotonic() - begun
    ends += await asyncio.gather(*clients)
    return {"canaries": after - before, "seconds": seconds, "streams": ends}


async def _paused(pod: Pod, found: dict[str, int]) -> Seen:
    """All that computes stops for a moment while streams run."""
    clients, begun = await pods.streams(pod, STREAMS, TOKENS), time.monotonic()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for name in ("engine core", "worker"):
            pods.tell(found[name], number)
        await asyncio.sleep(PAUSE_SECONDS if number is signal.SIGSTOP else 0)
    ends = await asyncio.gather(*clients)
    return {"streams": ends, "seconds": time.monotonic() - begun, **await _now(pod)}


async def _slow(pod: Pod, found: dict[str, int]) -> Seen:
    """The worker runs a tenth of the time only."""
    slow = asyncio.create_task(_in_turns(found["worker"]))
    begun, looks, ends = time.monotonic(), len(pod.looks), []
    while time.monotonic() < begun + SLOW_SECONDS:
        ends += await asyncio.gather(*await pods.streams(pod, STREAMS, FEW_TOKENS))
    unready = sum(look.ready is False for look in pod.looks[looks:])
    seconds = time.monotonic() - begun
    slow.cancel()
    pods.tell(found["worker"], signal.SIGCONT)
    return {"streams": ends, "unready": unready, "seconds": seconds, **await _now(pod)}


async def _in_turns(pid: int) -> None:
    while True:
        for number, seconds in ((signal.SIGSTOP, 0.9), (signal.SIGCONT, 0.1)):
            pods.tell(pid, number)
            await asyncio.sleep(seconds)


async def _now(pod: Pod) -> Seen:
    status = await pod.status()
    return {"phase": status["phase"], "pid": status["engine"]["pid"]}


async def _ended_by(pod: Pod, pid: int, number: int, *, begun: float | None = None) -> Seen:
    """A signal, and what follows it until the container has ended."""
    at = time.monotonic() if begun is None else begun
    pods.tell(pid, number)
    return await _end(pod, at)


async def _end(pod: Pod, begun: float) -> Seen:
    status, ended = await pod.end()
    green = [look for look in pod.looks if look.at >= begun and look.health and not look.ready]
    return {
        "unready": pod.unready_after(begun),
        "green": len(green),
        "exit": ended - begun,
        "status": status,
        "words": pod.last_words,
    }


async def _live(life: Callable[[], Awaitable[Seen]]) -> Seen:
    try:
        return await life()
    except Exception:
        return {"error": traceback.format_exc()}


async def main() -> None:
    """Print one document with all lives by name."""
    folder, full, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        lives = Lives(folder, full, Path(place))
        seen = {}
        for name in names:
            sys.stderr.write(f"--- {name}\n")
            seen[name] = await _live(getattr(lives, name))
    os.write(1, f"\n{json.dumps(seen)}\n".encode())


if __name__ == "__main__":
    asyncio.run(main())
