"""Requests to an endpoint without a pause, each on a fresh connection, each with its outcome.

In a cluster's network: `python -m tests.support.traffic URL MODEL` prints one JSON line per request
until SIGTERM. A fresh connection per request, because only a new connection is balanced anew: what
is sent to a replica that is gone, or not there yet, shows as an error.
"""

import argparse
import http.client
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tests.support.kube import Kube
from tests.support.onenode import Cluster, heard
from tests.support.waiting import until

from kindling_operator.model import names

ANSWER_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """One request: Unix time when sent, seconds taken, HTTP status (0: none), what went wrong."""

    sent: float
    seconds: float
    status: int
    error: str = ""

    @property
    def served(self) -> bool:
        return self.status == 200 and not self.error


@dataclass(slots=True)
class Traffic:
    """The answers so far, in their order; they keep coming while the traffic flows."""

    answers: list[Answer] = field(default_factory=list)

    @property
    def failures(self) -> list[Answer]:
        return [answer for answer in self.answers if not answer.served]

    def hear(self, line: str) -> None:
        """A line of the process that asks."""
        self.answers.append(Answer(**json.loads(line)))

    def wait_for(self, more: int) -> None:
        """Wait until `more` requests have been answered from now on, well or not."""
        wanted = len(self.answers) + more
        until(
            f"{more} answers",
            lambda: len(self.answers) >= wanted,
            seconds=more * ANSWER_SECONDS,
            every=0.1,
        )


def address(kube: Kube, name: str, namespace: str) -> str:
    """Base URL of a model's API by address: names of the cluster are not known outside of pods."""
    service = kube.have(names.SERVICE, name, namespace)
    return f"http://{service['spec']['clusterIP']}:8000/v1"


@contextmanager
def flowing(cluster: Cluster, url: str, model: str, *, every: float = 0.4) -> Iterator[Traffic]:
    """Send requests to `url` (…/v1) from inside the cluster's network while the block runs.

    The block begins after the first answer.
    """
    command = cluster.python("tests.support.traffic", url, model, f"--every={every}")
    traffic = Traffic()
    with heard(command, traffic.hear, seconds=ANSWER_SECONDS + 10):
        traffic.wait_for(1)
        yield traffic


def ask(url: str, model: str, *, tokens: int = 4) -> Answer:
    """One completion of a few tokens on a connection of its own."""
    parts = urlsplit(url)
    body = {"model": model, "prompt": "the server", "max_tokens": tokens}
    connection = http.client.HTTPConnection(parts.netloc, timeout=ANSWER_SECONDS)
    sent, started = time.time(), time.monotonic()
    try:
        connection.request(
            "POST",
            f"{parts.path}/completions",
            json.dumps(body),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        error = "" if answer.status == 200 and "choices" in text else text[:300]
        return Answer(sent, time.monotonic() - started, answer.status, error)
    except (OSError, http.client.HTTPException) as problem:
        error = f"{type(problem).__name__}: {problem}"
        return Answer(sent, time.monotonic() - started, 0, error)
    finally:
        connection.close()


def main() -> None:
    """Ask until SIGTERM, and print every answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--every", type=float, default=0.4, help="seconds between two requests")
    given = parser.parse_args()
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    while not ended:
        print(json.dumps(asdict(ask(given.url, given.model))), flush=True)
        time.sleep(given.every)


if __name__ == "__main__":
    main()
