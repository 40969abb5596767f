"""How long to wait before a request is made again."""

import random
from typing import Final

_FIRST_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 20.0


def wait_seconds(attempt: int, *, chance: float) -> float:
    """Before attempt `attempt` (from 1): doubling, at most 20 s, of which `chance` (0 to 1) takes
    up to half, so that many pods do not come back at once."""
    longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(attempt - 1, 10))
    return longest * (1 - chance / 2)


def drawn_wait(attempt: int, *, asked: float = 0.0) -> float:
    """The same, with a chance of this moment; after the seconds that the store asked for, if it
    did, and then not all at once."""
    chance = random.random()
    return max(wait_seconds(attempt, chance=chance), asked + chance if asked else 0.0)
