"""Rollouts under load without Kubernetes: real runtimes, and clients that stream.

Clients send to any pod that the endpoints name; the endpoints hear of a pod that leaves only after
a while, as those of a cluster do. Each answer is compared with that of a pod which nothing
disturbed: greedy sampling gives the same tokens every time.
"""

import asyncio
import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import aiohttp
from tests.support.engine import pod as pods
from tests.support.engine.sse import Completion

from kindling_runtime.contract import Drain, ExitCode, Front, LaunchPlan, Probe

FRONT: Final = Front(quiet_seconds=2, settle_seconds=4)
PROBE: Final = Probe(startup_seconds=300, interval_seconds=1)
DRAIN: Final = Drain(endpoint_seconds=20, stream_seconds=30, grace_seconds=10)
LONGEST_LAG: Final = 1.5
"""Seconds in which endpoints hear, less than a pod waits for them at least."""
PROMPTS: Final = ("the server", "a replica that leaves", "seven", "nobody is cut off here")


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What serves, and how much is asked of it. `plan` makes the orders of one more pod, given a
    folder that all share; `serves` is told of each once it is ready."""

    plan: Callable[[Path], LaunchPlan]
    tokens: int
    serves: Callable[[pods.Pod], None] = lambda _: None
    start_seconds: float = 300
    end_seconds: float = 90


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A stream as its client had it: `tokens` where the engine tells them, else none."""

    text: str
    tokens: tuple[int, ...]
    finish: str | None
    done: bool


@dataclasses.dataclass(slots=True)
class Outcome:
    """What the clients saw, and how the old pods ended."""

    whole: int = 0
    refused: int = 0
    lag: float = 0.0
    """The longest that endpoints have named a pod after its SIGTERM, in seconds."""
    dropped: list[str] = dataclasses.field(default_factory=list)
    altered: list[str] = dataclasses.field(default_factory=list)
    ends: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nobody noticed."""
        return not (self.dropped or self.altered) and all(
            status == ExitCode.CLEAN and " were cut" not in message for status, message in self.ends
        )


def standin(folder: Path) -> LaunchPlan:
    """A stand-in for vLLM behind the front."""
    model = folder / "model"
    if not model.exists():
        pods.weights(model)
    return pods.plan_for(
        model, switches=("--seconds-per-token=0.03",), probe=PROBE, drain=DRAIN, front=FRONT
    )


STANDIN: Final = Load(standin, tokens=60)


async def roll(
    folder: Path, *, replicas: int, streams: int, seed: int, load: Load = STANDIN, rollouts: int = 1
) -> Outcome:
    """Replace each of `replicas` pods, `rollouts` times, while `streams` clients stream one answer
    after another."""
    async with contextlib.AsyncExitStack() as stack:
        rollout = _Rollout(folder, load, stack, random.Random(seed))
        await rollout.serve(replicas)
        over = asyncio.Event()
        clients = [asyncio.create_task(rollout.client(number, over)) for number in range(streams)]
        for _ in range(rollouts * replicas):
            await rollout.replace_one()
        over.set()
        await asyncio.gather(*clients)
    return rollout.outcome


class _Rollout:
    def __init__(
        self, folder: Path, load: Load, stack: contextlib.AsyncExitStack, chance: random.Random
    ) -> None:
        self.outcome = Outcome()
        self._folder, self._load, self._stack, self._chance = folder, load, stack, chance
        self._made = 0
        self._endpoints: list[pods.Pod] = []
        self._told: dict[int, float] = {}
        self._expected: Mapping[str, Answer] = {}

    async def serve(self, replicas: int) -> None:
        """The first pods, and what they answer while nothing else is asked."""
        made = [await self._start() for _ in range(replicas)]
        for pod in made:
            await self._ready(pod)
        async with _session() as session:
            self._expected = {
                prompt: await ask(session, made[0], prompt, self._load.tokens) for prompt in PROMPTS
            }
        self._endpoints.extend(made)

    async def replace_one(self) -> None:
        """One more pod serves, then the oldest is told to leave."""
        fresh = await self._start()
        await self._ready(fresh)
        self._endpoints.append(fresh)
        leaving = self._endpoints[0]
        leaving.terminate()
        told = self._told[leaving.process.pid] = time.monotonic()
        await asyncio.sleep(self._chance.uniform(0, LONGEST_LAG))
        self._endpoints.remove(leaving)
        self.outcome.lag = max(self.outcome.lag, time.monotonic() - told)
        status = await asyncio.wait_for(leaving.process.wait(), self._load.end_seconds)
        self.outcome.ends.append((status, leaving.message))

    async def client(self, number: int, over: asyncio.Event) -> None:
        """Stream until it is over; what is refused politely is sent again elsewhere."""
        prompt = PROMPTS[number % len(PROMPTS)]
        async with _session() as session:
            while not over.is_set():
                pod = self._chance.choice(self._endpoints)
                try:
                    seen = await ask(session, pod, prompt, self._load.tokens)
                except pods.RefusedError as refusal:
                    self.outcome.refused += 1
                    await asyncio.sleep(refusal.retry_seconds)
                except (aiohttp.ClientError, TimeoutError) as error:
                    self.outcome.dropped.append(f"{self._where(pod)}: {error!r}")
                else:
                    self._compare(pod, seen, self._expected[prompt])

    def _compare(self, pod: pods.Pod, seen: Answer, expected: Answer) -> None:
        if seen == expected:
            self.outcome.whole += 1
        elif not seen.done or seen.finish != expected.finish:
            self.outcome.dropped.append(f"{self._where(pod)}: {seen}")
        else:
            self.outcome.altered.append(f"{self._where(pod)}: {seen} instead of {expected}")

    def _where(self, pod: pods.Pod) -> str:
        told = self._told.get(pod.process.pid)
        leaves = "" if told is None else f", {time.monotonic() - told:.2f} s after its SIGTERM"
        return f"{pod.folder.name}{leaves}"

    async def _start(self) -> pods.Pod:
        place = self._folder / f"pod-{self._made}"
        self._made += 1
        place.mkdir()
        running = pods.running(self._load.plan(self._folder), place)
        return await self._stack.enter_async_context(running)

    async def _ready(self, pod: pods.Pod) -> None:
        async with asyncio.timeout(self._load.start_seconds):
            while not await pod.ready():
                assert pod.process.returncode is None, pod.log
                await asyncio.sleep(0.05)
        self._load.serves(pod)


async def ask(session: aiohttp.ClientSession, pod: pods.Pod, prompt: str, tokens: int) -> Answer:
    """Stream a completion of so many tokens; raises RefusedError when the pod says to come again,
    and aiohttp's errors for a stream that ends without its end."""
    body = {
        "model": "tiny",
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    }
    seen = Completion()
    async with session.post(f"{pod.engine}/v1/completions", json=body) as response:
        if response.status == 503 and "retry-after" in response.headers:
            raise pods.RefusedError(int(response.headers["retry-after"]))
        if response.status != 200:
            raise aiohttp.ClientPayloadError(f"HTTP {response.status}: {await response.text()}")
        async for line in response.content:
            seen.hear(line)
    return Answer(seen.text, tuple(seen.ids), seen.finish, seen.done)


def _session() -> aiohttp.ClientSession:
    """A connection for each request: one that is kept may be closed by its server as it is used
    again (uvicorn's idle 5 s), rollout or not."""
    connections = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(
        connector=connections, timeout=aiohttp.ClientTimeout(total=None, sock_read=120)
    )
