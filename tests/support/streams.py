"""Many streams at once to an endpoint, each checked token by token.

In a cluster's network: `python -m tests.support.streams URL MODEL` keeps `--count` of them going
and prints one JSON line for each that ended, until SIGTERM; those that run then are finished first.

The engine may give each stream one token alone, another one for each stream: what a stream must be
is known beforehand, whatever else is in its batch.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final

import aiohttp
from tests.support.engine.sse import Completion
from tests.support.onenode import Cluster, heard
from tests.support.waiting import until

FIRST_TOKEN: Final = 300
"""Below it are the vocabulary's bytes and marks."""
END_SECONDS: Final = 180
REFUSED: Final = 503
_BEGUN: Final = "begun\n"


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: Unix time of its start, seconds, HTTP status (0: none), what was wrong with it.

    One that was refused with 503 and Retry-After was never begun: its client asks again.
    """

    sent: float
    seconds: float
    status: int
    tokens: int
    error: str = ""

    @property
    def refused(self) -> bool:
        return self.status == REFUSED and not self.error


@dataclass(slots=True)
class Streams:
    """Those that have ended, and how many have had a first token; more come while they flow."""

    ended: list[Stream] = field(default_factory=list)
    begun: int = 0

    @property
    def whole(self) -> int:
        return sum(1 for each in self.ended if not each.error and not each.refused)

    @property
    def refused(self) -> int:
        return sum(1 for each in self.ended if each.refused)

    @property
    def broken(self) -> list[Stream]:
        return [each for each in self.ended if each.error]

    def hear(self, line: str) -> None:
        """A line of the process that streams."""
        if line == _BEGUN:
            self.begun += 1
        else:
            self.ended.append(Stream(**json.loads(line)))


@contextmanager
def streaming(
    cluster: Cluster, url: str, model: str, *, tokens: int, count: int = 20, once: bool = False
) -> Iterator[Streams]:
    """Keep `count` streams of `tokens` going to `url` (…/v1) while the block runs, or each of them
    `once`. The block begins when the first token has come, and ends when all have ended."""
    given = (f"--count={count}", f"--tokens={tokens}", *(("--once",) if once else ()))
    command = cluster.python("tests.support.streams", url, model, *given)
    streams = Streams()
    with heard(command, streams.hear, seconds=END_SECONDS, ends=once):
        until("a stream to begin", lambda: streams.begun, seconds=END_SECONDS, every=0.1)
        yield streams


async def stream(url: str, model: str, *, token: int, tokens: int) -> Stream:
    """One stream of so many times the same token, on a connection of its own."""
    body = {
        "model": model,
        "prompt": "the server",
        "max_tokens": tokens,
        "ignore_eos": True,
        "allowed_token_ids": [token],
        "return_token_ids": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sent, started = time.time(), time.monotonic()
    seen = Completion()
    status, error = 0, ""
    timeout = aiohttp.ClientTimeout(total=END_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{url}/completions", json=body) as response,
        ):
            status = response.status
            if status == REFUSED and "Retry-After" in response.headers:
                return Stream(sent, time.monotonic() - started, status, 0)
            async for line in response.content:
                first = not seen.ids
                seen.hear(line)
                if first and seen.ids:
                    print(_BEGUN, end="", flush=True)
        error = _problem(seen, token, tokens) if status == 200 else f"HTTP {status}"
    except (TimeoutError, aiohttp.ClientError, OSError) as problem:
        error = f"{type(problem).__name__}: {problem} after {len(seen.ids)} tokens"
    return Stream(sent, time.monotonic() - started, status, len(seen.ids), error)


def _problem(seen: Completion, token: int, tokens: int) -> str:
    """What is wrong with a stream as it came, "" if nothing."""
    if seen.ids != [token] * tokens:
        return f"{seen.ids.count(token)} of {tokens} tokens, {len(seen.ids)} came"
    if (seen.finish, seen.usage, seen.done) != ("length", tokens, True):
        return f"finish {seen.finish}, usage {seen.usage}, [DONE] {seen.done}"
    return ""


async def _flow(given: argparse.Namespace, number: int, over: asyncio.Event) -> None:
    while not over.is_set():
        token = FIRST_TOKEN + number
        found = await stream(given.url, given.model, token=token, tokens=given.tokens)
        print(json.dumps(asdict(found)), flush=True)
        if given.once:
            return
        if found.refused or found.error:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 1)


async def _main(given: argparse.Namespace) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with asyncio.TaskGroup() as tasks:
        for number in range(given.count):
            tasks.create_task(_flow(given, number, over))


def main() -> None:
    """Stream until SIGTERM, and print how each stream ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--once", action="store_true", help="each stream once")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
