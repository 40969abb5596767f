"""`python -m tests.bench.planner [--write]`: how long planning takes, and how that grows.

No cluster and no GPU: the planner is a function. `--write` makes docs/perf/planner.md and its plot.
"""

import argparse
import asyncio
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure, table
from tests.bench.large_cluster import SPECS, Shape, snapshot
from tests.bench.plot import Line, plot

from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan import plan
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.placement import placements
from kindling_operator.reconcile.placing import Placing

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "perf"
NODES: Final = 5_000
MODELS: Final = 1_000
SIZES: Final = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Of the cluster that the targets are about."""
MEMORY_SECONDS: Final = 900

Growth = list[tuple[int, float]]
"""Size and milliseconds of CPU."""


def main() -> int:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/perf/planner.md")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    figures = [*times(), *memory()]
    growth = {
        "one model, by nodes": _grown(_sizes(NODES), one_model),
        f"{MODELS} models, by nodes": _grown(
            _sizes(NODES), lambda size: sweep(size, MODELS, times=3)
        ),
        f"{NODES} nodes, by models": _grown(
            _sizes(MODELS), lambda size: sweep(NODES, size, times=3)
        ),
        f"{NODES} nodes, by models, each with its own spec": _grown(
            _sizes(MODELS), lambda size: sweep(NODES, size, specs=size, times=3)
        ),
    }
    print(table(figures))
    print(growth_table(growth))
    if given.write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "planner.md").write_text(page(figures, growth, load=load))
        (FOLDER / "planner.svg").write_text(picture(growth))
    return 0


def times() -> list[Figure]:
    """What has a target in milliseconds of CPU."""
    return [
        Figure(
            f"plan for one model on {NODES} nodes",
            "ms CPU",
            tuple(one_model(NODES)),
            target=50,
            base=bare(NODES),
            base_name="reading every node once",
        ),
        *(
            Figure(
                f"{MODELS} models of {specs} specs on {NODES} nodes placed again,"
                " nothing remembered",
                "ms CPU",
                tuple(sweep(NODES, MODELS, specs=specs, times=3)),
                target=2000,
            )
            for specs in (SPECS, MODELS)
        ),
        *shapes(),
        Figure(
            f"{MODELS} models on the same {NODES} nodes placed again",
            "ms CPU",
            tuple(sweep_again(NODES, MODELS)),
            target=2000,
            note="a pod of somebody else has changed, no node has",
        ),
        Figure(
            f"a pass over {MODELS} models in which nothing has changed",
            "ms CPU",
            tuple(nothing_changed(NODES, MODELS)),
            target=200,
            note="the planner's part: the sweep is reused and no decision is made again",
        ),
    ]


def shapes() -> list[Figure]:
    """Models that share less than people's do."""
    return [
        Figure(
            f"{MODELS} models, each with its own {shape.value}, on {NODES} nodes",
            "ms CPU",
            tuple(sweep(NODES, MODELS, specs=MODELS, shape=shape, times=3)),
            target=2000,
        )
        for shape in Shape
        if shape is not Shape.PLAIN
    ]


def memory() -> list[Figure]:
    """Resident memory of a process with the operator's modules, in a process of its own."""
    found = json.loads(
        subprocess.run(
            [sys.executable, "-m", "tests.bench.large_memory"],
            check=True,
            capture_output=True,
            text=True,
            timeout=MEMORY_SECONDS,
        ).stdout
    )
    note = (
        f"{found['imports']:.0f} MiB after the imports, {found['listed']:.0f} after the lists;"
        " without what kopf keeps of the models' own objects"
    )
    return [
        Figure(
            "memory with 150000 pods of others, 5000 nodes and 1000 models of 1000 specs",
            "MiB",
            (found["peak"],),
            target=300,
            note=note,
        )
    ]


def one_model(nodes: int) -> list[float]:
    """One model alone, nothing remembered."""
    seen = snapshot(nodes=nodes, models=1)
    (key,) = seen.models
    return _measured(lambda: plan(seen, key), times=7)


def sweep(
    nodes: int, models: int, *, times: int, specs: int = SPECS, shape: Shape = Shape.PLAIN
) -> list[float]:
    """All models from nothing."""
    seen = snapshot(nodes=nodes, models=models, specs=specs, shape=shape)
    return _measured(lambda: placements(seen), times=times)


def sweep_again(nodes: int, models: int) -> list[float]:
    """All models, while the nodes are those of the last sweep."""
    placing, _ = _placing(nodes, models)
    return _measured(lambda: asyncio.run(placing.renew()), times=5)


def nothing_changed(nodes: int, models: int) -> list[float]:
    """Every model is decided on once more."""
    placing, seen = _placing(nodes, models)

    def decide() -> None:
        for key in seen.models:
            placing.decide(replace(seen), key)

    decide()
    return _measured(decide, times=7)


def bare(nodes: int) -> float:
    """What the machine takes to look at every node once."""
    seen = snapshot(nodes=nodes, models=0)
    return statistics.median(_measured(lambda: fleet_of(seen.nodes).pools(None), times=7))


def _placing(nodes: int, models: int) -> tuple[Placing, Snapshot]:
    seen = snapshot(nodes=nodes, models=models)
    placing = Placing(
        plan,
        lambda s, fleet: placements(s, fleet=fleet),
        look=lambda: replace(seen),
        wake=lambda _: None,
    )
    asyncio.run(placing.renew())
    return placing, seen


def _grown(sizes: Sequence[int], work: Callable[[int], list[float]]) -> Growth:
    """The median for each size."""
    return [(size, statistics.median(work(size))) for size in sizes]


def _sizes(target: int) -> tuple[int, ...]:
    return tuple(round(target * share) for share in SIZES)


def _measured(work: Callable[[], object], *, times: int) -> list[float]:
    found = []
    for _ in range(times):
        started = time.process_time()
        work()
        found.append((time.process_time() - started) * 1000)
    return found


def growth_table(growth: dict[str, Growth]) -> str:
    """Milliseconds by size, and the time over n log n, which does not rise where it is no worse."""
    lines = ["| what grows | size | ms CPU | of n log n |", "|---|---|---|---|"]
    for title, points in growth.items():
        (size, first), *_ = points
        unit = first / _n_log_n(size)
        lines += [
            f"| {title} | {size} | {value:.0f} | {value / _n_log_n(size) / unit:.2f} |"
            for size, value in points
        ]
    return "\n".join(lines)


def _n_log_n(size: int) -> float:
    return size * math.log2(size)


def picture(growth: dict[str, Growth]) -> str:
    """The growth on logarithmic axes, each beside the n log n that begins where it does."""
    lines: list[Line] = []
    for title, points in growth.items():
        (size, first), *_ = points
        unit = first / _n_log_n(size)
        reference = [(each, unit * _n_log_n(each)) for each, _ in points]
        lines += [Line(title, points), Line("", reference, dashed=True)]
    return plot(lines, x="nodes or models", y="ms of CPU (dashed: n log n)")


def page(figures: Sequence[Figure], growth: dict[str, Growth], *, load: float) -> str:
    """The result as a page of the docs."""
    return f"""# Figures of the planner

`python -m tests.bench.planner --write` (part of `make bench`), {datetime.now(UTC):%Y-%m-%d}, \
{os.cpu_count()} cores ({platform.machine()}), load average {load:.1f} at the start.

{table(figures)}

The models are half Flint, half Inkling. Each of {SPECS} specs is wanted by {MODELS // SPECS}
models that differ in names and weights alone. Of {MODELS} specs no two want the same: each has a
context of its own, and requests at once, memory of a GPU, zones, tolerations, arguments and memory
on top vary as they do among people. The rules' word on a way to serve a model, its weights and its
pace are found once for all of them (plan/ways.py); a spec of its own costs what is compared with
its context and its requests. A model that finds no GPU is told where they are: nodes that nothing
tells apart are counted once for all (plan/kept_out.py). A custom architecture shares nothing with
another: all of its ways are judged for it alone.

The nodes have four kinds of GPU, half of them partly held by others. CPU time is of the planner
alone, in one thread. The column "of target" is the measured number over its target. Nothing here
passes or fails.

## Growth

The last column is the time over n log n, as a share of that of the smallest size: growth is no
worse than n log n where it does not rise.

{growth_table(growth)}

![Time of planning by size of the cluster](planner.svg)
"""


if __name__ == "__main__":
    sys.exit(main())
