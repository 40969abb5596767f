"""Rollouts of pods with real vLLMs under streams; prints what clients saw, as JSON.

Runs with the Python of the CPU image, which sees the tests of this checkout: aiohttp and the
runtime only. The case is JSON in the first argument: folder of the model, rollouts, replicas,
streams, tokens of each.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.contract.engine import vllm_pod as pods
from tests.support.engine.pod import Pod, family_of
from tests.support.engine.rollout import Load, Outcome, roll
from tests.support.ports import free_ports

from kindling_runtime import contract

START_SECONDS = 900
_NICE = 15
DRAIN = contract.Drain(endpoint_seconds=30, stream_seconds=240, grace_seconds=60)


def plan(folder: str) -> contract.LaunchPlan:
    """In float32, where what a batch holds beside a request does not turn the choice of a token."""
    port, runtime_port = free_ports(2)
    return pods.plan(
        folder,
        probe=contract.Probe(startup_seconds=START_SECONDS),
        drain=DRAIN,
        ports=(port, runtime_port),
        arguments=("--dtype=float32",),
    )


def give_way(pod: Pod) -> None:
    """Let the engine compute in what time is left beside one that starts, as on a machine of its
    own: streams take all that there is.

    An engine has a session of its own, and where Linux groups tasks by session, it is the group
    that gives way, not its threads (sched(7), "The autogroup feature").
    """
    family = family_of(pod.process.pid)
    for session in {os.getsid(each) for each in family} - {os.getsid(0)}:
        _give_way_as_a_group(Path(f"/proc/{session}/autogroup"))
    for engine in family:
        for thread in Path(f"/proc/{engine}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICE)


def _give_way_as_a_group(group: Path) -> None:
    if not group.exists():
        return
    for _ in range(20):
        # Linux takes one such order in a tenth of a second (kernel/sched/autogroup.c).
        with contextlib.suppress(BlockingIOError):
            group.write_text(str(_NICE))
            return
        time.sleep(0.1)


async def rolled(model: str, rollouts: int, replicas: int, streams: int, tokens: int) -> Outcome:
    """All of them, one after another over the same clients."""
    load = Load(
        lambda _: plan(model), tokens, give_way, start_seconds=START_SECONDS, end_seconds=400
    )
    with tempfile.TemporaryDirectory() as place:
        return await roll(
            Path(place), replicas=replicas, streams=streams, seed=1, load=load, rollouts=rollouts
        )


def main() -> None:
    """Print the outcome."""
    outcome = asyncio.run(rolled(*json.loads(sys.argv[1])))
    json.dump({**dataclasses.asdict(outcome), "clean": outcome.clean}, sys.stdout)


if __name__ == "__main__":
    main()
