"""How many examples the property tests try: few with every run, ten times as many in a soak."""

import os
from typing import Final

from hypothesis import settings

FACTOR: Final = int(os.environ.get("KINDLING_EXAMPLES", "1"))
"""Multiplies the number of examples of every property."""

USUAL: Final = 50
"""Examples of a property that asks for no other number."""


def examples(usual: int = USUAL) -> settings:
    """Settings of a property with so many examples.

    No deadline for one example: on a busy machine it measures the others. Every test has its own.
    """
    return settings(max_examples=usual * FACTOR, deadline=None)
