"""`python -m tests.bench.runtime [--write]`: the figures of the runtime, printed as a table.

Everything is measured in one run on this machine, over stand-ins for vLLM; --write puts the table
into docs/perf.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.bench import downloads
from tests.bench.figure import Figure, table
from tests.support.engine import pod as pods
from tests.support.engine.rollout import STANDIN, roll
from tests.support.onenode import ROOT
from tests.support.weights import fetching, store

from kindling_runtime.contract import Phase, Probe

RESULT: Final = ROOT / "docs" / "perf" / "runtime.md"
ROLLOUTS: Final = 3
REPLICAS: Final = 3
STREAMS: Final = 20
STARTS: Final = 7
PYTHON: Final = "python -c 'import aiohttp'"
LOOK_SECONDS: Final = 1
STREAM_TOKENS: Final = 600
IDLE_SECONDS: Final = 30
MIB: Final = 1 << 20


async def figures(folder: Path) -> list[Figure]:
    """All but the throughput of a download."""
    return [
        *await rollouts(_made(folder / "rollouts")),
        *await starts(_made(folder / "starts")),
        *await one_life(_made(folder / "life")),
        await second_pod(_made(folder / "second")),
    ]


async def rollouts(folder: Path) -> list[Figure]:
    """Streams that clients lost or got otherwise than undisturbed, for each rollout."""
    seen = await roll(folder, replicas=REPLICAS, streams=STREAMS, seed=1, rollouts=ROLLOUTS)
    name = f"streams {{}} by a rollout of {REPLICAS} replicas at {STREAMS} streams"
    return [
        Figure(
            name.format("dropped"),
            "streams",
            (len(seen.dropped) / ROLLOUTS,),
            target=0,
            note=f"{ROLLOUTS} rollouts, {seen.whole} streams of {STANDIN.tokens} tokens were whole;"
            " `make soak` makes 100 of them, and 5 with vLLM",
        ),
        Figure(name.format("altered"), "streams", (len(seen.altered) / ROLLOUTS,), target=0),
    ]


async def starts(folder: Path) -> list[Figure]:
    """Process start to the start of the engine, as the runtime itself tells, beside what Python
    alone takes at that moment."""
    model = pods.weights(folder / "model")
    seconds, work, alone = [], [], []
    for number in range(STARTS):
        alone.append(await _python())
        place = _made(folder / str(number))
        async with pods.running(pods.plan_for(model), place) as pod:
            await pod.reach(Phase.READY)
            seconds.append(await pod.metric("kindling_runtime_engine_launch_seconds"))
            work.append(await pod.metric("process_cpu_seconds_total"))
    return [
        Figure(
            "process start to the start of the engine",
            "s",
            tuple(seconds),
            target=1.5,
            base=statistics.median(alone),
            base_name=f"`{PYTHON}`",
        ),
        Figure("CPU of the runtime until its engine is ready", "s", tuple(work)),
    ]


async def one_life(folder: Path) -> list[Figure]:
    """Canaries while a stream runs, and what the runtime is at while nobody asks."""
    model = pods.weights(folder / "model")
    probe = Probe(startup_seconds=60, interval_seconds=LOOK_SECONDS)
    plan = pods.plan_for(model, switches=("--seconds-per-token=0.05",), probe=probe)
    async with pods.running(plan, folder) as pod:
        await pod.reach(Phase.READY)
        client = await pod.streaming(STREAM_TOKENS)
        await asyncio.sleep(2 * LOOK_SECONDS)
        before = await pod.metric("kindling_runtime_canaries_total")
        await asyncio.sleep(STREAM_TOKENS * 0.05 / 2)
        sent = await pod.metric("kindling_runtime_canaries_total") - before
        assert not client.done(), "tokens did not advance all the time"
        await client
        await asyncio.sleep(IDLE_SECONDS)
        resident = pods.resident(pod.process.pid) / MIB
    looks = STREAM_TOKENS * 0.05 / 2 / LOOK_SECONDS
    return [
        Figure(
            "canaries while tokens advance",
            "requests",
            (sent,),
            target=0,
            note=f"in the time of {looks:.0f} looks, as the runtime counts them",
        ),
        Figure("runtime of an idle engine", "MiB of RSS", (resident,), target=80),
    ]


async def second_pod(folder: Path) -> Figure:
    """Bytes that a pod downloads whose claim has the weights."""
    async with store.running(store.files_of(8 * MIB, 8 * MIB)) as served:
        taken = []
        for pod in ("first", "second"):
            before = served.sent
            plan = fetching.fetch_plan(served.s3_uri, folder / "volume")
            run = await fetching.fetched(plan, folder / pod, served.environment, pod=pod)
            assert run.process.returncode == 0, run.log
            taken.append(served.sent - before)
    return Figure(
        "downloaded by a second pod",
        "bytes",
        (taken[1],),
        target=0,
        note=f"the first one downloaded {taken[0]} bytes, as the store counts them",
    )


async def _python() -> float:
    """Seconds of a Python that imports what HTTP needs, and ends."""
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import aiohttp")
    await process.wait()
    return time.monotonic() - begun


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def page(found: list[Figure], *, load: float) -> str:
    """The result as a page of the docs."""
    return f"""# Figures of the runtime

`python -m tests.bench.runtime --write` (a part of `make bench`), {datetime.now(UTC):%Y-%m-%d}, \
{os.cpu_count()} cores ({platform.machine()}), load average {load:.1f} at the start.

{table(found)}

Nothing here passes or fails. The store of a download and the clients are on the same machine; the
throughput is compared with curl's, which fetches the same ranges to the same disk in the same run.
What the front costs: [adr/0010](../adr/0010-a-front-inside-the-engines-server.md).
"""


def main() -> int:
    """Measure, print, perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = [*asyncio.run(figures(folder)), *downloads.figures()]
    print(table(found))
    if given.write:
        RESULT.write_text(page(found, load=load))
    return 0


if __name__ == "__main__":
    sys.exit(main())
