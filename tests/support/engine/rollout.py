"""A rollout under load without Kubernetes: real runtimes over stand-ins, and clients that stream.

Clients send to any pod that the endpoints name; the endpoints hear of a pod that leaves only after
a while, as those of a cluster do.
"""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
from tests.support.engine import pod as pods

from kindling_runtime.contract import Drain, ExitCode, Front, LaunchPlan, Phase

TOKENS: Final = 60
FRONT: Final = Front(quiet_seconds=2, settle_seconds=4)
DRAIN: Final = Drain(endpoint_seconds=20, stream_seconds=30, grace_seconds=10)
LONGEST_LAG: Final = 1.5
"""Seconds in which endpoints hear, less than a pod waits for them at least."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """What the clients saw, and how the old pods ended."""

    whole: int = 0
    refused: int = 0
    broken: list[str] = dataclasses.field(default_factory=list)
    ends: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nobody noticed."""
        return not self.broken and all(
            status == ExitCode.CLEAN and " were cut" not in message for status, message in self.ends
        )


async def roll(folder: Path, *, replicas: int, streams: int, seed: int) -> Outcome:
    """Replace each of `replicas` pods while `streams` clients stream one answer after another."""
    chance, outcome = random.Random(seed), Outcome()
    model = pods.weights(folder / "model")
    async with contextlib.AsyncExitStack() as stack:

        async def pod(number: int) -> pods.Pod:
            place = folder / f"pod-{number}"
            place.mkdir()
            found = await stack.enter_async_context(pods.running(_plan(model), place))
            await found.reach(Phase.READY)
            return found

        old = [await pod(number) for number in range(replicas)]
        expected = await old[0].stream(TOKENS)
        endpoints, over = list(old), asyncio.Event()
        clients = [
            asyncio.create_task(_client(endpoints, expected, outcome, chance, over))
            for _ in range(streams)
        ]
        for number, leaving in enumerate(old):
            endpoints.append(await pod(replicas + number))
            leaving.terminate()
            await leaving.reach(Phase.DRAINING)
            await asyncio.sleep(chance.uniform(0, LONGEST_LAG))
            endpoints.remove(leaving)
            outcome.ends.append((await leaving.exit_status(), leaving.message))
        over.set()
        await asyncio.gather(*clients)
    return outcome


def _plan(model: Path) -> LaunchPlan:
    return pods.plan_for(model, switches=("--seconds-per-token=0.03",), drain=DRAIN, front=FRONT)


async def _client(
    endpoints: Sequence[pods.Pod],
    expected: Sequence[str],
    outcome: Outcome,
    chance: random.Random,
    over: asyncio.Event,
) -> None:
    """Stream until it is over; what is refused politely is sent again elsewhere."""
    while not over.is_set():
        pod = chance.choice(endpoints)
        try:
            seen = await pod.stream(TOKENS)
        except pods.RefusedError as refusal:
            outcome.refused += 1
            await asyncio.sleep(refusal.retry_seconds)
        except (aiohttp.ClientError, TimeoutError) as error:
            outcome.broken.append(f"{type(error).__name__}: {error}")
        else:
            if seen == expected:
                outcome.whole += 1
            else:
                outcome.broken.append(f"{len(seen)} events, the last {seen[-1:]}")
