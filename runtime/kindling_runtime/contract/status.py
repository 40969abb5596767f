"""What the runtime tells: the status document, and its last words."""

from typing import Final

import msgspec

from kindling_runtime.contract.cache import CacheStatus
from kindling_runtime.contract.phases import DrainStep, EvidenceSource, Phase, Reason
from kindling_runtime.contract.plan import Expected, Model
from kindling_runtime.contract.plugins import PluginStatus


class _Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object of a report. Unlike in a plan, unknown fields pass: a report orders nothing."""


class EngineStatus(_Report, frozen=True, kw_only=True):
    """The engine process; `started_at` in RFC 3339, `read_bytes` what it had read at the last look
    while it loads."""

    pid: int | None
    started_at: str | None
    read_bytes: int | None = None


class Evidence(_Report, frozen=True, kw_only=True):
    """What is known about tokens.

    `first_token_seconds` is counted from process start, `last_token_at` is RFC 3339. `canaries`
    counts the runtime's own attempts at a request, most of which are refused connections while the
    engine loads; `misses` counts the looks in a row that found no token, and `last_miss` says what
    the engine did instead, the last time.
    """

    first_token_seconds: float | None
    last_token_at: str | None
    source: EvidenceSource | None
    canaries: int
    misses: int
    last_miss: str | None


class Checked(_Report, frozen=True, kw_only=True):
    """One check before the engine's start: `problem` is a sentence, "" for none, and `seconds` is
    how long it took."""

    check: str
    problem: str = ""
    seconds: float = 0.0


class GroupStatus(_Report, frozen=True, kw_only=True):
    """The pod's place in its group; `met` once all were there together. `strangers` is how often
    the leader heard somebody speak for another pod from an address that is not that pod's."""

    rank: int
    size: int
    met: bool
    strangers: int = 0


class Traffic(_Report, frozen=True, kw_only=True):
    """What the front has counted since the engine's start; canaries are among it.

    `active` run now. `finished` were answered to the end, `left` are those whose client went,
    `cut` those that the server ended. `refused` came while the pod left, `denied` named a route
    that is not served.
    """

    active: int
    finished: int
    left: int
    cut: int
    refused: int
    denied: int


class GroupBackend(_Report, frozen=True, kw_only=True):
    """The attention kernel that the engine took for the layers of one KV group."""

    group: str
    backend: str


class MemoryUse(_Report, frozen=True, kw_only=True):
    """Bytes of one GPU that the engine measured; `item` as in the operator's plan."""

    item: str
    bytes: int


class EngineFacts(_Report, frozen=True, kw_only=True):
    """What the engine tells of itself once it serves; null or empty where it does not.

    `kv_blocks` is the pool with the null block, `kv_tokens` and `kv_concurrency` are what vLLM
    computes from it for requests of `max_model_len` tokens (cache_config_info of its metrics).
    """

    kv_blocks: int | None = None
    kv_tokens: int | None = None
    kv_concurrency: str | None = None
    cache_dtype: str | None = None
    attention_backends: tuple[GroupBackend, ...] = ()
    memory: tuple[MemoryUse, ...] = ()


class Download(_Report, frozen=True, kw_only=True):
    """Weights on their way, in bytes: `bytes` of `total` are in the cache.

    `fetched` of them this pod has got from the store since it started, 0 while it waits for another
    pod's download. Rate and time are of late, null where they cannot be told. `problem` is a clause
    about a store that sends nothing, "" while bytes come.
    """

    bytes: int
    total: int
    fetched: int = 0
    bytes_per_second: int | None = None
    seconds_left: int | None = None
    problem: str = ""


class Status(_Report, frozen=True, kw_only=True):
    """The answer of `GET /status`.

    `since` is when the phase began, `deadline` when time alone ends it or the present step of the
    drain (both RFC 3339); a ready engine has a deadline while it shows no token. `models_answers`
    counts the engine's answers at MODELS_PATH since its start as it told them last, null before.
    `facts` are there once the engine has told, and `traffic` where the plan has a front. `plugins`
    are all corrections of vLLM that the image has, in place or not; `preflight` is every check that
    was made. `cache` is the object-store tier, null without one.
    """

    contract_version: int
    runtime_version: str
    phase: Phase
    since: str
    deadline: str | None
    reason: Reason
    message: str
    ready: bool
    alive: bool
    model: Model
    engine: EngineStatus
    evidence: Evidence
    drain: DrainStep | None
    expected: Expected
    models_answers: int | None = None
    group: GroupStatus | None = None
    facts: EngineFacts | None = None
    download: Download | None = None
    traffic: Traffic | None = None
    plugins: tuple[PluginStatus, ...] = ()
    preflight: tuple[Checked, ...] = ()
    cache: CacheStatus | None = None


_CHECKS: Final = " [checks: "


def last_words(reason: Reason, sentence: str, checks: str = "") -> str:
    """The termination message: for `kubectl describe`, and for the operator to read back; `checks`
    is for people alone."""
    listed = f"{_CHECKS}{checks}]" if checks else ""
    return f"{reason}: {sentence}{listed}"


def read_last_words(message: str) -> tuple[Reason | None, str]:
    """Reason and sentence of a termination message; no reason in one that is not the runtime's."""
    word, colon, sentence = message.partition(": ")
    if not colon or word not in set(Reason):
        return None, message
    # Cut at the kubelet's limit, the list may lack its end.
    before, listed, _ = sentence.rpartition(_CHECKS)
    return Reason(word), before if listed else sentence
