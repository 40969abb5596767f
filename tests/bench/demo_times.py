"""How long the demo took, as its last runs wrote it down."""

import json
from pathlib import Path

from tests.bench.figure import Figure
from tests.support.demo.record import Kind

TARGETS = {Kind.WARM: 120.0, Kind.COLD: 1200.0}
"""Seconds. Runs of other kinds had part of the work done, or all of it: they are no figures."""


def demo_times(folder: Path) -> list[Figure]:
    """Seconds to the completion of the last warm and the last cold run; none that never ran."""
    figures = []
    for kind, target in TARGETS.items():
        path = folder / f"times-{kind}.json"
        if not path.exists():
            continue
        run = json.loads(path.read_text())
        steps = "; ".join(f"{title}: {seconds:.0f} s" for title, seconds in run["steps"])
        figures.append(
            Figure(f"make demo, {kind}", "s", (run["seconds"],), target=target, note=steps)
        )
    return figures
