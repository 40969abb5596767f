"""A change of the runtime's code, from the edited file to the new image in the node."""

import shutil
import tempfile
import time
from dataclasses import dataclass
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
        references = [_into_the_node(cluster, copy, say=say).reference]
        unchanged, runs = _into_the_node(cluster, copy, say=say), []
        for number in range(CHANGES):
            with (copy / EDITED).open("a") as source:
                source.write(f"# change {number} at {time.time_ns()}\n")
            runs.append(_into_the_node(cluster, copy, say=say))
    references += [each.reference for each in runs]
    assert len(set(references)) == CHANGES + 1, f"not every change made a new image: {references}"
    return [
        Figure(
            "code-only change of the runtime to the new image in the node",
            "s",
            tuple(each.seconds for each in runs),
            target=30,
            base=unchanged.seconds,
            base_name="the same with nothing changed",
            note="images/build --push, then a pull by the node",
        )
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """One way into the node: how long it took, and the image that it brought."""

    seconds: float
    reference: str


def _into_the_node(cluster: Cluster, copy: Path, *, say: Say) -> Run:
    started = time.monotonic()
    build = copy / "images" / "build"
    out = run(build, "--push", cluster.registry, "runtime-cpu", seconds=SECONDS, say=say)
    reference = image_references(out)["runtime-cpu"]
    cluster.node("crictl", "pull", reference, seconds=SECONDS)
    return Run(time.monotonic() - started, reference)
