"""Which of the engines behind one port work, by their own counters.

vLLM counts for each data-parallel rank, label `engine` (v1/metrics/loggers.py:515-800). The values
come from the engine core with each of its steps, so that of one that hangs they stand still. While
a long prompt is read no token is counted, but its blocks are: then the cache fills, which cannot
last for ever.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.samples import Sample

from kindling_runtime import enginemetrics
from kindling_runtime.foreign import printable

_TOKENS: Final = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")
_CACHE: Final = "vllm:kv_cache_usage_perc"
_RUNNING: Final = "vllm:num_requests_running"
_WAITING: Final = "vllm:num_requests_waiting"
_BY_REASON: Final = "vllm:num_requests_waiting_by_reason"
_DEFERRED: Final = "deferred"
"""Of `reason`: waits for what is not the engine's own: a transfer, a grammar, its client."""
_RISE: Final = 1e-4
"""Of the whole cache: less is no step of a prefill."""
_MOST: Final = 2.0**53
_LONGEST_NAME: Final = 32
_MOST_UNTOLD: Final = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Signs:
    """What one engine tells: tokens read and generated in all, the share of its cache in use, and
    the requests that it could work at."""

    tokens: float = 0.0
    cache: float = 0.0
    requests: int = 0


Reading = Mapping[str, Signs]
"""By the label `engine`."""


def signs_of(text: str) -> Reading | None:
    """The signs in an engine's metrics, None without any. What is no number is no sign."""
    found: dict[str, Signs] = {}
    for name in (*_TOKENS, _CACHE, _RUNNING, _WAITING, _BY_REASON):
        for sample in _samples(text, name):
            label = printable(sample.labels.get("engine", "")[:_LONGEST_NAME])
            found[label] = _with(found.get(label, Signs()), sample)
    return found or None


def _samples(text: str, name: str) -> Iterator[Sample]:
    for sample in enginemetrics.samples(text, name) or ():
        if sample.name == name and math.isfinite(sample.value):
            yield sample


def _with(signs: Signs, sample: Sample) -> Signs:
    if sample.name in _TOKENS:
        return dataclasses.replace(signs, tokens=signs.tokens + sample.value)
    if sample.name == _CACHE:
        return dataclasses.replace(signs, cache=max(signs.cache, sample.value))
    count = int(min(max(sample.value, 0.0), _MOST))
    if sample.name == _BY_REASON:
        count = -count if sample.labels.get("reason") == _DEFERRED else 0
    return dataclasses.replace(signs, requests=signs.requests + count)


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """An engine at the last reading; `high` is what its cache has reached since its last token,
    `since` from when on it is known to be busy without evidence, `worked` whether it has since the
    look began."""

    signs: Signs
    high: float
    since: float | None
    worked: bool

    @property
    def busy(self) -> bool:
        return self.signs.requests > 0


class Book:
    """What is known of the engines from look to look. A look is one reading or several."""

    def __init__(self, *, seconds: float) -> None:
        """`seconds`: for how long a busy engine may be without evidence."""
        self._seconds = seconds
        self._entries: dict[str, _Entry] = {}
        self._untold: dict[str, _Entry] = {}
        self._awaited: frozenset[str] = frozenset()

    def begin(self, reading: Reading, *, now: float) -> None:
        """A look's first reading."""
        self._entries, self._untold = _begun(self._entries), _begun(self._untold)
        self._awaited = frozenset(reading)
        self.enter(reading, now=now)

    def enter(self, reading: Reading, *, now: float) -> None:
        """Another reading of the same look. What is not told of is not waited for; once it is told
        of again, its time goes on."""
        known = self._untold | self._entries
        self._entries = {
            name: _entry(known.get(name), signs, now=now) for name, signs in reading.items()
        }
        untold = [(name, entry) for name, entry in known.items() if name not in reading]
        self._untold = dict(untold[-_MOST_UNTOLD:])
        self._awaited = frozenset(
            name
            for name in self._awaited
            if (entry := self._entries.get(name)) is not None and entry.busy and not entry.worked
        )

    def forget(self) -> None:
        """Nothing is known: the next reading shows no work, whatever it says."""
        self._entries, self._untold, self._awaited = {}, {}, frozenset()

    @property
    def awaited(self) -> bool:
        """Whether an engine that was busy when the look began still is and has not worked."""
        return bool(self._awaited)

    @property
    def worked(self) -> bool:
        """Whether any engine has since the end of the last look."""
        return any(entry.worked for entry in self._entries.values())

    def left(self, *, now: float) -> float:
        """Seconds until a busy engine has been without evidence for too long."""
        return min(
            (
                entry.since + self._seconds - now
                for entry in self._entries.values()
                if entry.since is not None
            ),
            default=math.inf,
        )

    def silent(self) -> tuple[str, int]:
        """The engine that has been busy without evidence for longest, as a subject, and its
        requests. From here on it has its whole time again."""
        name, entry = min(
            ((name, entry) for name, entry in self._entries.items() if entry.since is not None),
            key=lambda each: each[1].since or 0.0,
        )
        self._entries = {
            each: dataclasses.replace(known, since=None) for each, known in self._entries.items()
        }
        return (f"engine {name}" if name else "the engine"), entry.signs.requests


def _begun(entries: Mapping[str, _Entry]) -> dict[str, _Entry]:
    return {name: dataclasses.replace(entry, worked=False) for name, entry in entries.items()}


def _entry(before: _Entry | None, signs: Signs, *, now: float) -> _Entry:
    busy = signs.requests > 0
    if before is None:
        return _Entry(signs, signs.cache, now if busy else None, worked=False)
    token = signs.tokens > before.signs.tokens
    rose = busy and signs.cache >= before.high + _RISE
    since = None
    if busy and not token and not rose:
        anew = before.since is None or signs.tokens < before.signs.tokens
        since = now if anew else before.since
    high = signs.cache if token or rose or not busy else before.high
    return _Entry(signs, high, since, worked=before.worked or token or rose)
