"""`kindling plan` for the tests of traps: a model on nodes, and an image with other facts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.support.builders import catalog_spec
from tests.support.planning import Object, Said, kindling_plan, node

from kindling_operator.catalog import runtimes

DIGEST: Final = f"sha256:{1:064x}"
OWN_IMAGE: Final = {"image": f"mirror.test/runtime@{DIGEST}"}
"""An image that `facts` describes."""


class Planner:
    """`kindling plan` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def spec(self, spec: Object, *nodes: Object, **changed_facts: Any) -> Said:
        """The answer for a spec; with `changed_facts` OWN_IMAGE is the release's but for these."""
        described = [facts(**changed_facts)] if changed_facts else []
        return kindling_plan(self._folder, spec, *nodes, runtimes=described)

    def model(self, name: str, *nodes: Object, **fields: Any) -> Said:
        """The answer for a model of the catalog."""
        return self.spec(catalog_spec(name, **fields), *nodes)


def facts(**changes: Any) -> Mapping[str, Any]:
    """What the release's CUDA image can do, with changes, under another digest."""
    wire: dict[str, Any] = msgspec.to_builtins(runtimes.load("cuda"))
    return {**wire, "name": "ours", "digests": [DIGEST], **changes}


def lacking(package: str) -> list[str]:
    return [each for each in runtimes.load("cuda").packages if each != package]


def b200s(count: int = 1) -> tuple[Object, ...]:
    return tuple(node(f"b-{number}", "NVIDIA-B200") for number in range(count))


def h200s(count: int = 1) -> tuple[Object, ...]:
    return tuple(node(f"h-{number}", "NVIDIA-H200") for number in range(count))


def fixed(tokens: int) -> dict[str, Any]:
    """spec.serving with so many drafted tokens."""
    return {"speculation": {"mode": "Fixed", "tokens": tokens}}
