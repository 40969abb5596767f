"""A change of the runtime's code, from the edited file to the new image in the node."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure
from tests.support.install import image_references
from tests.support.onenode import ROOT, Cluster, run
from tests.support.waiting import Say

CHANGES: Final = 3
EDITED: Final = Path("runtime/kindling_runtime/clock.py")
SECONDS: Final = 600
LEFT_OUT: Final = (".git", ".venv", "*_cache", ".failures", "dist")


def code_change(cluster: Cluster, *, say: Say) -> list[Figure]:
    """Build, push and pull the CPU runtime image after a change of one comment, three times.

    In a copy of the repository: the change is never in the working tree.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "kindling"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        (copy / ".venv").symlink_to(ROOT / ".venv")
        _into_the_node(cluster, copy, say=say)
        unchanged, samples = _seconds(cluster, copy, say=say), []
        for number in range(CHANGES):
            with (copy / EDITED).open("a") as source:
                source.write(f"# change {number} at {time.time_ns()}\n")
            samples.append(_seconds(cluster, copy, say=say))
    return [
        Figure(
            "code-only change of the runtime to the new image in the node",
            "s",
            tuple(samples),
            target=30,
            base=unchanged,
            base_name="the same with nothing changed",
            note="images/build --push, then a pull by the node",
        )
    ]


def _seconds(cluster: Cluster, copy: Path, *, say: Say) -> float:
    started = time.monotonic()
    _into_the_node(cluster, copy, say=say)
    return time.monotonic() - started


def _into_the_node(cluster: Cluster, copy: Path, *, say: Say) -> None:
    build = copy / "images" / "build"
    out = run(build, "--push", cluster.registry, "runtime-cpu", seconds=SECONDS, say=say)
    cluster.node("crictl", "pull", image_references(out)["runtime-cpu"], seconds=SECONDS)
