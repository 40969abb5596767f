"""The store of weights that a test can break, where pods of the cluster reach it.

`python -m tests.support.weights.standing FOLDER HOST` serves a folder, prints its URL, and takes a
line of JSON for each change: fields of the store, with their new values.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tests.support.kube import NODE, Kube
from tests.support.onenode import ROOT, Cluster
from tests.support.weights import store as stores
from tests.support.weights.fetching import content

PORT: Final = 443
"""Where the policy of a model that downloads lets its pods go."""
GOOD: dict[str, Any] = {
    "bytes_per_second": 0,
    "hangs_after": None,
    "refuses": 0,
    "failures": 0,
    "corrupt": [],
}
"""Nothing is wrong."""


@dataclass(slots=True)
class Standing:
    """A running store; `url` is the hub's as pods reach it."""

    url: str
    orders: IO[str]

    def becomes(self, **wrong: Any) -> None:
        """Break it so, and no otherwise; whole without arguments."""
        self.orders.write(json.dumps(GOOD | wrong) + "\n")
        self.orders.flush()


@contextmanager
def standing(cluster: Cluster, kube: Kube, folder: Path) -> Iterator[Standing]:
    """Serve a folder at the node's address while the block runs."""
    [node] = kube.find(NODE, selector="onenode/real")
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    command = cluster.python("tests.support.weights.standing", str(folder), addresses["InternalIP"])
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Standing(process.stdout.readline().strip(), process.stdin)
        finally:
            process.terminate()


async def _serve(files: dict[str, bytes], host: str) -> None:
    async with stores.running(files, host=host, port=PORT) as store:
        print(store.url, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            for name, value in json.loads(line).items():
                setattr(store, name, set(value) if name == "corrupt" else value)


def main() -> None:
    """Serve until the orders end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("host")
    given = parser.parse_args()
    asyncio.run(_serve(content(given.folder), given.host))


if __name__ == "__main__":
    main()
