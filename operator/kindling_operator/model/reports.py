"""What a replica's runtime says of itself: as much of its status as people are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kindling_operator.model.names import Key


@dataclass(frozen=True, slots=True)
class Report:
    """One pod's word.

    `progress` is what its weights or its engine do while it starts, "" beside that. `kv_blocks`,
    `kv_tokens` and `cache_dtype` are the engine's own, None until it serves; `backends` the
    attention kernel by KV group; `memory` bytes of one GPU by line of the plan, as measured; `off`
    why each correction of vLLM that is not in place is not, by name. `trouble` is why it does not
    move although it runs, in the shape of its last words, "" while it does.
    """

    progress: str = ""
    kv_blocks: int | None = None
    kv_tokens: int | None = None
    cache_dtype: str | None = None
    backends: tuple[tuple[str, str], ...] = ()
    memory: tuple[tuple[str, int], ...] = ()
    off: tuple[tuple[str, str], ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """A pod that was told to leave and cut requests: `words` is its runtime's last sentence, how
    many of how many and after which time; `at` is when its container ended."""

    model: Key
    pod: str
    uid: str
    words: str
    at: datetime
