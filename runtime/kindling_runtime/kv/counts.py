"""What the tier has done since it started. The engine's thread writes, others read."""

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import Final

SAMPLES: Final = 4096
"""Durations that wait to be read, of each kind; older ones are lost."""


class Lost(enum.StrEnum):
    """Why a chunk that was to be loaded was not; a label of metrics."""

    MISSING = "missing"
    """It was taken to exist."""
    DAMAGED = "damaged"
    LATE = "late"
    """Not there, or not begun, within the deadline of its load."""
    TROUBLE = "trouble"
    """The store has not given it."""


class Unwritten(enum.StrEnum):
    """Why bytes that were offered were not sent; a label of metrics."""

    ADMISSION = "admission"
    """Nobody has asked for this prefix twice."""
    EXISTS = "exists"
    """The store has them."""
    ROOM = "room"
    """There was no memory for them in time."""
    TROUBLE = "trouble"
    """The store has not taken them."""


def _samples() -> deque[float]:
    return deque(maxlen=SAMPLES)


@dataclass(slots=True)
class Counts:
    """Chunks, bytes, tokens and requests; durations in seconds."""

    prompts: int = 0
    """That were looked for."""
    prompt_tokens: int = 0
    hit_prompts: int = 0
    """Of which something was found that pays."""
    hit_tokens: int = 0
    late_searches: int = 0
    questions: int = 0
    unpaid: int = 0
    """Prompts that were found and not loaded, because a recompute is quicker."""
    loads: int = 0
    loaded_chunks: int = 0
    loaded_bytes: int = 0
    read_bytes: int = 0
    lost: dict[Lost, int] = field(default_factory=dict)
    hedges: int = 0
    hedges_won: int = 0
    stored_objects: int = 0
    stored_chunks: int = 0
    stored_bytes: int = 0
    duplicate_bytes: int = 0
    """That were sent, and another pod had been quicker."""
    unwritten: dict[Unwritten, int] = field(default_factory=dict)
    """Bytes."""
    search_seconds: deque[float] = field(default_factory=_samples)
    load_seconds: deque[float] = field(default_factory=_samples)
    store_seconds: deque[float] = field(default_factory=_samples)

    def lose(self, why: Lost, chunks: int = 1) -> None:
        """So many chunks were not loaded."""
        if chunks:
            self.lost[why] = self.lost.get(why, 0) + chunks

    def spare(self, why: Unwritten, count: int) -> None:
        """So many bytes were not sent."""
        if count:
            self.unwritten[why] = self.unwritten.get(why, 0) + count
