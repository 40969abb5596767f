"""`python -m tests.bench [--write]`: measure, print the table; --write puts it into docs/perf."""

import argparse
import os
import platform
import sys
from datetime import UTC, datetime

from tests.bench.code_change import code_change
from tests.bench.demo_times import demo_times
from tests.bench.figure import Figure, table
from tests.bench.operator_cost import OperatorCost
from tests.support import install, manifests
from tests.support.cache import cache_folder
from tests.support.kube import Kube
from tests.support.onenode import ROOT, Cluster

RESULT = ROOT / "docs" / "perf" / "part1.md"


def main() -> int:
    """Measure on the cluster of the tests, which is started and left up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    figures = measure()
    print(table(figures))
    if given.write:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(page(figures, load=load))
    return 0


def measure() -> list[Figure]:
    """Install this checkout and measure everything, the costs of the operator first."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    cluster = Cluster(say=say)
    cluster.up()
    kube = Kube(cluster.environment, say=say)
    try:
        kube.apply(manifests.namespace(install.NAMESPACE))
        install.install(kube, install.build_images(cluster, say=say))
        return [
            *OperatorCost(cluster, kube).figures(),
            *code_change(cluster, say=say),
            *demo_times(cache_folder() / "demo"),
        ]
    finally:
        kube.close()


def page(figures: list[Figure], *, load: float) -> str:
    """The result as a page of the docs."""
    return f"""# Figures of part 1

`python -m tests.bench --write`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores \
({platform.machine()}), load average {load:.1f} at the start.

{table(figures)}

The column "of target" is the measured number over its target; "of a base" compares with a number
of the same run, and is what should stay the same on another machine. Nothing here passes or fails.
"""


if __name__ == "__main__":
    sys.exit(main())
